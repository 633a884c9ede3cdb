//! Small tokenizers for the tests, made in place.

use crate::tokenizer::Tok;
use serde_json::{json, Map, Value};

/// Texts that tend to break extraction.
pub const TRICKY: &[&str] = &[
    "",
    " ",
    "a<|end|>b",
    "<|end|>",
    "<|end|><|end|>",
    "x <strip>  y",
    "x  <strip>y <strip>",
    "<|en",
    "<|end|",
    "|>",
    "wo rd",
    "word",
    "aword",
    "word word",
    "<think>\n</think>",
    "中<|end|>文",
    "TOK tok ToK",
    "  <|end|>  ",
];

fn added(id: usize, content: &str, special: bool) -> Value {
    json!({"id": id, "content": content, "special": special, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
}

/// A byte-level BPE without merges: 256 bytes, then the added tokens.
pub fn byte_level() -> Tok {
    let mut vocab = Map::new();
    let printable = |b: u32| matches!(b, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut next = 0x100;
    for b in 0..256u32 {
        let code = if printable(b) {
            b
        } else {
            next += 1;
            next - 1
        };
        vocab.insert(char::from_u32(code).unwrap().to_string(), json!(b));
    }
    let mut tokens = vec![added(256, "<|end|>", true), added(257, "<think>", false), added(258, "</think>", false)];
    let mut strip = added(259, "<strip>", true);
    strip["lstrip"] = json!(true);
    strip["rstrip"] = json!(true);
    let mut word = added(260, "word", false);
    word["single_word"] = json!(true);
    let mut tok = added(261, "tok", false);
    tok["normalized"] = json!(true);
    tokens.extend([strip, word, tok]);
    open(json!({
        "version": "1.0", "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": null, "added_tokens": tokens, "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null, "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": []}
    }))
}

/// A sentencepiece-like BPE with a few pieces and lone bytes.
pub fn byte_fallback() -> Tok {
    let mut vocab = Map::new();
    vocab.insert("<unk>".into(), json!(0));
    for b in 0..256 {
        vocab.insert(format!("<0x{b:02X}>"), json!(b + 1));
    }
    for (i, piece) in ["▁", "a", "b", "▁a", "é"].iter().enumerate() {
        vocab.insert((*piece).into(), json!(257 + i));
    }
    open(json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [added(262, "<s>", true)],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": true, "byte_fallback": true, "vocab": vocab, "merges": [["▁", "a"]]}
    }))
}

fn open(json: Value) -> Tok {
    Tok::from_json(json.to_string().as_bytes()).unwrap()
}
