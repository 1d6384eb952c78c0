"""Writes a Llama of random numbers in llama.cpp's format: random_gguf.py FILE. It speaks gibberish at the pace of a
model of 40 million weights, so that streams last and queues form."""

import sys

import gguf
import numpy

WIDTH, LAYERS, HEADS, INNER, VOCABULARY, CONTEXT = 512, 12, 8, 1408, 2048, 8192


def vocabulary():
    """Tokens, scores and types of SentencePiece: three marks, every byte, and made-up syllables."""
    kind = gguf.TokenType
    tokens = [("<unk>", 0.0, kind.UNKNOWN), ("<s>", 0.0, kind.CONTROL), ("</s>", 0.0, kind.CONTROL)]
    tokens += [(f"<0x{byte:02X}>", 0.0, kind.BYTE) for byte in range(256)]
    syllables = [a + b + c for a in ("", "\u2581") for a2 in "bdfgklmnprst" for b in (a2,)
                 for c in (v + e for v in "aeiou" for e in ["", *"dlmnrstkpgbfvzcwj"])]
    tokens += [(each, -float(rank), kind.NORMAL) for rank, each in enumerate(syllables)]
    return tokens[:VOCABULARY]


def main(path):
    tokens = vocabulary()
    assert len(tokens) == VOCABULARY, len(tokens)
    chance = numpy.random.default_rng(1)
    out = gguf.GGUFWriter(path, "llama")
    out.add_name("random")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(WIDTH // HEADS)
    out.add_vocab_size(VOCABULARY)
    out.add_tokenizer_model("llama")
    out.add_token_list([text.encode() for text, _, _ in tokens])
    out.add_token_scores([score for _, score, _ in tokens])
    out.add_token_types([kind for _, _, kind in tokens])
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_unk_token_id(0)

    def random(name, *shape):
        out.add_tensor(name, chance.normal(0, 0.02, shape).astype(numpy.float32))

    def ones(name):
        out.add_tensor(name, numpy.ones(WIDTH, numpy.float32))

    random("token_embd.weight", VOCABULARY, WIDTH)
    # Only syllables are ever likely: bytes would make text that is not UTF-8, which llama.cpp refuses to send.
    likely = chance.normal(0, 0.02, (VOCABULARY, WIDTH)).astype(numpy.float32)
    likely[:3 + 256] = 0
    out.add_tensor("output.weight", likely)
    ones("output_norm.weight")
    for layer in range(LAYERS):
        for part in ("q", "k", "v", "output"):
            random(f"blk.{layer}.attn_{part}.weight", WIDTH, WIDTH)
        random(f"blk.{layer}.ffn_gate.weight", INNER, WIDTH)
        random(f"blk.{layer}.ffn_up.weight", INNER, WIDTH)
        random(f"blk.{layer}.ffn_down.weight", WIDTH, INNER)
        ones(f"blk.{layer}.attn_norm.weight")
        ones(f"blk.{layer}.ffn_norm.weight")
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main(sys.argv[1])
