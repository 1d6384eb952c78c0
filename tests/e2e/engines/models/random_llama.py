"""Writes a Llama of random numbers as Hugging Face's libraries have one: random_llama.py FOLDER [WIDTH LAYERS]. It speaks
gibberish, by default at the pace of a model of 40 million weights, so that streams last and queues form."""

import random
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHAT = "{% for message in messages %}<s>{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant: "


def tokenizer():
    """Trained on made-up words."""
    chance = random.Random(1)
    words = ["".join(chance.choice("bdfgklmnprst") + chance.choice("aeiou") for _ in range(chance.randint(1, 4)))
             for _ in range(4000)]
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel()
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator((" ".join(chance.choices(words, k=20)) for _ in range(2000)), trainers.BpeTrainer(
        vocab_size=2048, special_tokens=["<unk>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", bos_token="<s>", eos_token="</s>",
                                   chat_template=CHAT)


def main(folder, width="512", layers="12"):
    torch.manual_seed(1)
    width, heads = int(width), int(width) // 64
    LlamaForCausalLM(LlamaConfig(
        hidden_size=width, num_hidden_layers=int(layers), num_attention_heads=heads, num_key_value_heads=heads,
        intermediate_size=width * 11 // 4,
        vocab_size=2048, max_position_embeddings=8192, bos_token_id=1, eos_token_id=2)).save_pretrained(folder)
    tokenizer().save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
