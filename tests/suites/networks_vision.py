"""Vision networks of `timm`, `vit_pytorch` and `transformers`."""

from __future__ import annotations

from typing import Any

from tests.suites.networks import Make, Network, of


def timm(name: str, size: int = 32, **options: Any) -> Make:
    def make() -> Network:
        import timm as package

        return of(package.create_model(name, pretrained=False, num_classes=5, **options), (2, 3, size, size))

    return make


def vit(name: str, *shape: int, **options: Any) -> Make:
    def make() -> Network:
        import importlib

        module, _, kind = name.rpartition(".")
        found = getattr(importlib.import_module(f"vit_pytorch.{module}" if module else "vit_pytorch"), kind)
        return of(found(**options), shape or (2, 3, 32, 32))

    return make


def pretrained_kind(family: str, suffix: str, size: int = 32, **options: Any) -> Make:
    """A vision model of `transformers` from a small configuration."""

    def make() -> Network:
        import transformers

        small = {
            "image_size": size,
            "patch_size": 8,
            "hidden_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "intermediate_size": 37,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "attn_implementation": "eager",
            "num_labels": 5,
        }
        config = getattr(transformers, f"{family}Config")(**{**small, **options})
        return of(getattr(transformers, family + suffix)(config), (2, 3, size, size))

    return make


NETWORKS: dict[str, Make] = {
    "timm Swin V2": timm(
        "swinv2_tiny_window8_256",
        img_size=32,
        patch_size=2,
        window_size=4,
        embed_dim=12,
        depths=(2, 2),
        num_heads=(2, 3),
    ),
    "timm ConViT": timm(
        "convit_tiny", img_size=32, patch_size=8, embed_dim=24, depth=3, num_heads=3, local_up_to_layer=2
    ),
    "timm Swin": timm(
        "swin_tiny_patch4_window7_224",
        img_size=32,
        patch_size=2,
        window_size=4,
        embed_dim=12,
        depths=(2, 2),
        num_heads=(2, 3),
    ),
    "timm ViT": timm("vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=3),
    "timm DeiT distilled": timm(
        "deit_tiny_distilled_patch16_224", img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=3
    ),
    "timm CaiT": timm("cait_xxs24_224", img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=3),
    "timm XCiT": timm("xcit_nano_12_p8_224", img_size=32, embed_dim=24, depth=2, num_heads=3),
    "timm ConvNeXt": timm("convnext_atto", depths=(1, 1, 2, 1), dims=(8, 12, 16, 20)),
    "timm ConvNeXt V2": timm("convnextv2_atto", depths=(1, 1, 2, 1), dims=(8, 12, 16, 20)),
    "timm EdgeNeXt": timm("edgenext_xx_small", depths=(1, 1, 1, 1), dims=(8, 16, 24, 32), heads=(2, 2, 2, 2)),
    "timm PVT V2": timm("pvt_v2_b0", depths=(1, 1, 1, 1), embed_dims=(8, 16, 20, 24), num_heads=(1, 2, 2, 3)),
    "timm MobileViT": timm("mobilevit_xxs", size=64),
    "timm MobileNetV3": timm("mobilenetv3_small_050", size=64),
    "timm EfficientNet lite": timm("tinynet_e", size=64),
    "timm GhostNet": timm("ghostnet_050", size=64),
    "timm MNASNet": timm("mnasnet_050", size=64),
    "timm HardCoRe-NAS": timm("lcnet_050", size=64),
    "timm VoVNet": timm("ese_vovnet19b_slim_dw"),
    "transformers DINOv2": pretrained_kind("Dinov2", "ForImageClassification", mlp_ratio=2),
    "transformers ViT": pretrained_kind("ViT", "ForImageClassification"),
    "transformers DeiT": pretrained_kind("DeiT", "ForImageClassification"),
    "transformers BEiT": pretrained_kind("Beit", "ForImageClassification", use_relative_position_bias=True),
    "transformers MobileViT": pretrained_kind(
        "MobileViT",
        "ForImageClassification",
        size=64,
        patch_size=2,
        hidden_sizes=[16, 20, 24],
        neck_hidden_sizes=[8, 8, 12, 16, 20, 24, 32],
        num_attention_heads=2,
    ),
    "transformers PoolFormer": pretrained_kind(
        "PoolFormer", "ForImageClassification", hidden_sizes=[8, 12, 16, 20], depths=[1, 1, 1, 1], drop_path_rate=0.0
    ),
    "transformers ConvNeXt": pretrained_kind(
        "ConvNext", "ForImageClassification", size=64, patch_size=4, hidden_sizes=[8, 12], depths=[1, 1]
    ),
    "transformers ResNet": pretrained_kind(
        "ResNet", "ForImageClassification", embedding_size=8, hidden_sizes=[8, 12, 16, 20], depths=[1, 1, 1, 1]
    ),
    "vit_pytorch ViT": vit("ViT", image_size=32, patch_size=8, num_classes=5, dim=24, depth=2, heads=3, mlp_dim=37),
    "vit_pytorch SimpleViT": vit(
        "SimpleViT", image_size=32, patch_size=8, num_classes=5, dim=24, depth=2, heads=3, mlp_dim=37
    ),
    "vit_pytorch CaiT": vit(
        "cait.CaiT", image_size=32, patch_size=8, num_classes=5, dim=24, depth=2, cls_depth=1, heads=3, mlp_dim=37
    ),
    "vit_pytorch CvT": vit(
        "cvt.CvT",
        num_classes=5,
        s1_emb_dim=8,
        s1_depth=1,
        s2_emb_dim=12,
        s2_heads=2,
        s2_depth=1,
        s3_emb_dim=16,
        s3_heads=2,
        s3_depth=1,
    ),
    "vit_pytorch LeViT": vit(
        "levit.LeViT",
        2,
        3,
        64,
        64,
        image_size=64,
        num_classes=5,
        stages=2,
        dim=(16, 24),
        depth=1,
        heads=(2, 3),
        mlp_mult=2,
        dropout=0.0,
    ),
    "vit_pytorch CCT": vit(
        "cct.CCT",
        img_size=(32, 32),
        embedding_dim=24,
        n_conv_layers=1,
        num_layers=2,
        num_heads=3,
        mlp_ratio=2.0,
        num_classes=5,
        positional_embedding="learnable",
        stochastic_depth=0.0,
    ),
}
