/* Ports of the DMA engine, one for each core: a part of pmsis.c, where the SDK has them. */
#if defined(STUB_PORTS)
enum { SIZE = 0xffff, TWO = 1 << 19, INWARDS = 1 << 17, EVENT = 1 << 20 };
static __thread uint32_t words[5];
static __thread int count;

uint32_t plp_dma_getCmd(int ext2loc, unsigned size, int is2D, int trigEvt, int trigIrq, int broadcast)
{
    demand(trigEvt && !trigIrq && !broadcast, "an event that the core does not see alone");
    return (size & SIZE) | (ext2loc ? INWARDS : 0) | (is2D ? TWO : 0) | EVENT;
}

/* The port's command takes a counter when it is read; the status shows whose transfers are not complete. */
uint32_t pulp_read32(uint32_t address)
{
    uint32_t found = 0;
    pthread_mutex_lock(&engine);
    if (address == ARCHI_MCHAN_DEMUX_ADDR + MCHAN_CMD_OFFSET) {
        demand(count == 0, "a counter in the middle of a command");
        found = (uint32_t)(current_counter = take_counter());
    } else {
        demand(address == ARCHI_MCHAN_DEMUX_ADDR + MCHAN_STATUS_OFFSET, "reading from elsewhere");
        for (int i = 0; i < pieces; i++)
            found |= 1u << pending[i].counter;
    }
    pthread_mutex_unlock(&engine);
    return found;
}

/* Three words, or five, are a transfer; the status releases counters. */
void pulp_write32(uint32_t address, uint32_t value)
{
    if (address == ARCHI_MCHAN_DEMUX_ADDR + MCHAN_STATUS_OFFSET) {
        pthread_mutex_lock(&engine);
        for (int i = 0; i < pieces; i++)
            demand(!(value >> pending[i].counter & 1), "releasing what is under way");
        for (int i = 0; i < COUNTERS; i++)
            if (value >> i & 1)
                release(i);
        pthread_mutex_unlock(&engine);
        return;
    }
    demand(address == ARCHI_MCHAN_DEMUX_ADDR + MCHAN_CMD_OFFSET, "writing to elsewhere");
    words[count++] = value;
    if (count < (words[0] & TWO ? 5 : 3))
        return;
    count = 0;
    const pi_cl_dma_copy_t copy = {.loc = words[1],
                                   .ext = words[2],
                                   .size = (uint16_t)(words[0] & SIZE),
                                   .dir = words[0] & INWARDS ? PI_CL_DMA_DIR_EXT2LOC : PI_CL_DMA_DIR_LOC2EXT,
                                   .merge = 1,
                                   .length = words[3],
                                   .stride = words[4]};
    issue(&copy, (words[0] & TWO) != 0);
}

/* An event comes when what this core began is complete. */
void eu_evt_maskWaitAndClr(unsigned mask)
{
    demand(mask == 1u << ARCHI_CL_EVT_DMA0, "another event");
    pthread_mutex_lock(&engine);
    demand(current_counter >= 0, "waiting for nothing");
    complete(current_counter);
    pthread_mutex_unlock(&engine);
}
#endif
