"""gguftokenizer.py GGUF OUT: writes the tokenizer that a GGUF file's metadata describes as tokenizer.json and
tokenizer_config.json. For tests only, standard library only; understands byte-level BPE in the manner of SmolLM2.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""
import json, os, struct, sys

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY, CONTROL = 8, 9, 3


class Reader:
    def __init__(self, file):
        self.file = file

    def scalar(self, code):
        return struct.unpack("<" + code, self.file.read(struct.calcsize("<" + code)))[0]

    def value(self, kind):
        if kind == STRING:
            return self.file.read(self.scalar("Q")).decode("utf-8")
        if kind == ARRAY:
            item, count = self.scalar("I"), self.scalar("Q")
            return [self.value(item) for _ in range(count)]
        return self.scalar(SCALARS[kind])

    def metadata(self):
        magic, _version, _tensors, pairs = (self.scalar(c) for c in ("4s", "I", "Q", "Q"))
        assert magic == b"GGUF", magic
        return dict((self.value(STRING), self.value(self.scalar("I"))) for _ in range(pairs))


def byte_level(add_prefix_space):
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True, "use_regex": True}


def tokenizer(meta):
    tokens, types = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    special = [{"id": i, "content": t, "special": True, **flags} for i, (t, k) in enumerate(zip(tokens, types)) if k == CONTROL]
    bpe = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
           "fuse_unk": False, "byte_fallback": False, "vocab": {t: i for i, t in enumerate(tokens)},
           "merges": [m.split(" ") for m in meta["tokenizer.ggml.merges"]]}
    split = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level(False)]}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
            "pre_tokenizer": split, "post_processor": None, "decoder": byte_level(True), "model": bpe}


def config(meta):
    tokens = meta["tokenizer.ggml.tokens"]
    out = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": meta["tokenizer.chat_template"]}
    for ours, theirs in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown")):
        if (key := f"tokenizer.ggml.{theirs}_token_id") in meta:
            out[f"{ours}_token"] = tokens[meta[key]]
    return out


def main(source, out):
    with open(source, "rb") as file:
        meta = Reader(file).metadata()
    os.makedirs(out, exist_ok=True)
    for name, data in (("tokenizer.json", tokenizer(meta)), ("tokenizer_config.json", config(meta))):
        with open(os.path.join(out, name), "w", encoding="utf-8") as file:
            json.dump(data, file, ensure_ascii=False)


main(*sys.argv[1:])
