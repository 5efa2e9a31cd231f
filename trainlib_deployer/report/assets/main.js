// Fills the places that the page has for pictures and tables.

import { readData } from "./data.js";
import { directView } from "./direct.js";
import { LayerGraph } from "./graph.js";
import { MemoryMap } from "./memory.js";
import { scheduleTable } from "./schedule.js";
import { lossView, verificationTable } from "./verification.js";

const data = readData(document.getElementById("data").textContent);
const place = (name) => document.querySelector(`[data-draw="${name}"]`); // none where a page has no such section
const schedule = scheduleTable(data);

function look(words) {
  schedule.find(words);
  document.getElementById("schedule").scrollIntoView();
}

place("schedule").replaceChildren(schedule.element);
place("direct").replaceChildren(...directView(data));
new LayerGraph(data, place("graph"), look);
const maps = data.levels.map((level, at) => (level.used ? new MemoryMap(data, at, place("maps"), look) : null));
if (data.losses) place("loss")?.replaceChildren(...lossView(data.losses));
if (data.verified) place("verification").replaceChildren(verificationTable(data.verified).element);
document.body.dataset.drawn = String(maps.filter(Boolean).length);
