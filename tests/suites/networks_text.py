"""Transformers for text, sound and time series, from tiny configurations of `transformers` and other packages."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.suites.networks import FirstTensor, Make, Network, of, of_tokens

VOCABULARY = 61
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
ENCODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "max_position_embeddings": 48,
    **NO_DROPOUT,
}


def encoder(family: str, kind: str = "ForSequenceClassification", **options: Any) -> Make:
    """A model that reads tokens."""

    def make() -> Network:
        import transformers

        config = getattr(transformers, f"{family}Config")(**{**ENCODER, "attn_implementation": "eager", **options})
        return of_tokens(getattr(transformers, family + kind)(config), (2, 13), VOCABULARY)

    return make


def decoder(family: str, kind: str = "ForCausalLM", **options: Any) -> Make:
    """A language model."""
    small = {
        "vocab_size": VOCABULARY,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 40,
        "max_position_embeddings": 48,
        "use_cache": False,
        "attn_implementation": "eager",
        "pad_token_id": 0,
    }

    def make() -> Network:
        import transformers

        config = getattr(transformers, f"{family}Config")(**{**small, **options})
        return of_tokens(getattr(transformers, family + kind)(config), (2, 11), VOCABULARY)

    return make


def t5() -> Network:
    import transformers

    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=24,
        d_kv=8,
        d_ff=37,
        num_layers=2,
        num_heads=3,
        dropout_rate=0.0,
        use_cache=False,
        decoder_start_token_id=0,
    )

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.t5 = transformers.T5ForConditionalGeneration(config)

        def forward(self, ids: torch.Tensor) -> Any:
            return self.t5(input_ids=ids, decoder_input_ids=ids[:, :7]).logits

    return of_tokens(Both(), (2, 11), VOCABULARY)


def sound(family: str, **options: Any) -> Make:
    """A model that hears a waveform."""

    def make() -> Network:
        import transformers

        small = {
            "hidden_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "intermediate_size": 37,
            "conv_dim": (12, 12, 12),
            "conv_stride": (5, 2, 2),
            "conv_kernel": (10, 3, 2),
            "num_feat_extract_layers": 3,
            "num_conv_pos_embeddings": 16,
            "num_conv_pos_embedding_groups": 4,
            "hidden_dropout": 0.0,
            "attention_dropout": 0.0,
            "activation_dropout": 0.0,
            "feat_proj_dropout": 0.0,
            "layerdrop": 0.0,
            "apply_spec_augment": False,
            "attn_implementation": "eager",
            "num_labels": 5,
        }
        config = getattr(transformers, f"{family}Config")(**{**small, **options})
        return of(getattr(transformers, f"{family}ForSequenceClassification")(config), (2, 900))

    return make


def series(family: str, **options: Any) -> Make:
    """A model that forecasts."""

    def make() -> Network:
        import transformers

        config = getattr(transformers, f"{family}Config")(**options)
        return of(getattr(transformers, f"{family}ForPrediction")(config), (2, 32, 3))

    return make


def rotary() -> Network:
    from rotary_embedding_torch import RotaryEmbedding

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(24, 72)
            self.rotary = RotaryEmbedding(dim=6)
            self.out = nn.Linear(24, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.qkv(x).reshape(x.shape[0], x.shape[1], 3, 3, 8).permute(2, 0, 3, 1, 4)
            q, k = self.rotary.rotate_queries_or_keys(q), self.rotary.rotate_queries_or_keys(k)
            y = nn.functional.scaled_dot_product_attention(q, k, v)
            return self.out(y.transpose(1, 2).flatten(2))

    return of(Attention(), (2, 11, 24))


def x_transformer() -> Network:
    from x_transformers import Encoder, TransformerWrapper

    layers = Encoder(dim=24, depth=2, heads=3, attn_dim_head=8)
    return of_tokens(TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=16, attn_layers=layers), (2, 13), VOCABULARY)


def local_attention() -> Network:
    from local_attention import LocalTransformer

    net = LocalTransformer(
        num_tokens=VOCABULARY, dim=24, depth=1, max_seq_len=32, local_attn_window_size=8, heads=3, dim_head=8
    )
    return Network(FirstTensor(net), lambda g: (torch.randint(0, VOCABULARY, (2, 16), generator=g),))


NETWORKS: dict[str, Make] = {
    "transformers BERT": encoder("Bert"),
    "transformers RoBERTa": encoder("Roberta", pad_token_id=0),
    "transformers ALBERT": encoder("Albert", embedding_size=16, num_hidden_groups=1),
    "transformers ELECTRA": encoder("Electra", embedding_size=16),
    "transformers DistilBERT": encoder(
        "DistilBert",
        dim=24,
        n_layers=2,
        n_heads=3,
        hidden_dim=37,
        dropout=0.0,
        attention_dropout=0.0,
        seq_classif_dropout=0.0,
    ),
    "transformers MobileBERT": encoder(
        "MobileBert", embedding_size=16, intra_bottleneck_size=12, true_hidden_size=12, num_attention_heads=4
    ),
    "transformers ConvBERT": encoder("ConvBert", num_attention_heads=4, embedding_size=24, conv_kernel_size=3),
    "transformers MPNet": encoder("MPNet"),
    "transformers DeBERTa V2": encoder("DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "transformers FNet": encoder("FNet"),
    "transformers OPT": decoder("OPT", ffn_dim=40, word_embed_proj_dim=24, dropout=0.0, do_layer_norm_before=True),
    "transformers GPT-2": decoder(
        "GPT2",
        "LMHeadModel",
        n_embd=24,
        n_layer=2,
        n_head=4,
        n_positions=48,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    ),
    "transformers GPT-NeoX": decoder("GPTNeoX"),
    "transformers Llama": decoder("Llama"),
    "transformers Qwen2": decoder("Qwen2"),
    "transformers Mistral": decoder("Mistral"),
    "transformers Mixtral": decoder("Mixtral", intermediate_size=36, num_local_experts=4, num_experts_per_tok=2),
    "transformers Gemma": decoder("Gemma", head_dim=6),
    "transformers Phi": decoder("Phi", hidden_size=32),
    "transformers BLOOM": decoder("Bloom", n_layer=2, n_head=4),
    "transformers Mamba": decoder("Mamba", state_size=4, expand=2, conv_kernel=3, time_step_rank=4),
    "transformers T5": t5,
    "transformers wav2vec2": sound("Wav2Vec2"),
    "transformers HuBERT": sound("Hubert"),
    "transformers WavLM": sound("WavLM"),
    "transformers SEW": sound("SEW", squeeze_factor=2),
    "transformers data2vec audio": sound("Data2VecAudio", num_conv_pos_embeddings=2, conv_pos_kernel_size=3),
    "transformers PatchTST": series(
        "PatchTST",
        num_input_channels=3,
        context_length=32,
        prediction_length=4,
        patch_length=8,
        patch_stride=8,
        d_model=16,
        num_attention_heads=2,
        num_hidden_layers=2,
        ffn_dim=24,
        attn_implementation="eager",
    ),
    "transformers PatchTSMixer": series(
        "PatchTSMixer",
        context_length=32,
        prediction_length=4,
        patch_length=8,
        patch_stride=8,
        num_input_channels=3,
        d_model=8,
        num_layers=2,
    ),
    "rotary_embedding_torch attention": rotary,
    "x_transformers encoder": x_transformer,
    "local_attention transformer": local_attention,
}
