// The C ABI of rs/ (crate ingot_textkit). Every entry may be called from any
// thread; a stream by one thread at a time. Text is UTF-8 without a final NUL.
#ifndef INGOT_TEXTKIT_H
#define INGOT_TEXTKIT_H

// Written by scripts/textkit.sh: a new library has Go link anew.
#if __has_include("stamp.h")
#include "stamp.h"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Bytes owned by the library until tk_buf_free. With status TK_OK it holds the
// answer, otherwise the reason as text. A null ptr is empty and needs no freeing.
typedef struct {
  uint8_t *ptr;
  size_t len;
  size_t cap;
} tk_buf;

enum { TK_OK = 0, TK_ERR = 1, TK_PANIC = 2 };
enum { TK_ADD_SPECIAL = 1, TK_PARSE_SPECIAL = 2 };

typedef struct tk_tokenizer tk_tokenizer;
typedef struct tk_stream tk_stream;
typedef struct tk_template tk_template;

void tk_buf_free(tk_buf *buf);

int tk_tokenizer_open(const uint8_t *json, size_t len, tk_tokenizer **handle, tk_buf *out);
void tk_tokenizer_close(tk_tokenizer *t);
int tk_encode(const tk_tokenizer *t, const uint8_t *s, size_t len, uint32_t flags, const size_t *marks, size_t n_marks, tk_buf *out);
int tk_decode(const tk_tokenizer *t, const uint32_t *ids, size_t n, bool skip_special, tk_buf *out);
size_t tk_vocab_size(const tk_tokenizer *t);
int64_t tk_token_id(const tk_tokenizer *t, const uint8_t *s, size_t len);
int tk_token(const tk_tokenizer *t, uint32_t id, bool bytes, tk_buf *out);
int tk_added_tokens(const tk_tokenizer *t, tk_buf *out);

tk_stream *tk_stream_open(const tk_tokenizer *t, bool skip_special);
void tk_stream_close(tk_stream *s);
int tk_stream_step(tk_stream *s, uint32_t id, tk_buf *out);
int tk_stream_flush(tk_stream *s, tk_buf *out);

int tk_template_open(const uint8_t *src, size_t len, tk_template **handle, tk_buf *out);
void tk_template_close(tk_template *t);
int tk_render(const tk_template *t, const uint8_t *context, size_t len, int64_t seconds, uint32_t micros, tk_buf *out);

#endif
