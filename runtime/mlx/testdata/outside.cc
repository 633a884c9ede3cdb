// Counts MLX's buffers from outside, in any program on Linux: preloaded, it puts
// itself in the place of MLX's allocator and keeps its counters in the shared
// file named by OUTSIDE_COUNTS, where another reader finds them. With
// OUTSIDE_LIMIT, malloc throws at that many live buffers, in Metal's words.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "mlx/allocator.h"

namespace mlx::core::allocator {

namespace {

struct Counts {
  std::atomic<int64_t> live, peak, total;
};

Counts* shared_counts() {
  const char* path = getenv("OUTSIDE_COUNTS");
  int fd = path == nullptr ? -1 : open(path, O_RDWR);
  if (fd < 0 || ftruncate(fd, sizeof(Counts)) != 0) abort();
  void* p = mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) abort();
  close(fd);
  return static_cast<Counts*>(p);
}

class Counting : public Allocator {
 public:
  explicit Counting(Allocator& real) : real_(real), counts_(*shared_counts()) {
    const char* limit = getenv("OUTSIDE_LIMIT");
    limit_ = limit == nullptr ? 0 : atoll(limit);
  }

  Buffer malloc(size_t n) override {
    if (limit_ > 0 && counts_.live >= limit_)
      throw std::runtime_error("[metal::malloc] Resource limit (" + std::to_string(limit_) + ") exceeded.");
    Buffer b = real_.malloc(n);
    if (b.ptr() != nullptr) made();
    return b;
  }
  void free(Buffer b) override {
    if (b.ptr() != nullptr) counts_.live--;
    real_.free(b);
  }
  size_t size(Buffer b) const override { return real_.size(b); }
  Buffer make_buffer(void* p, size_t n) override {
    Buffer b = real_.make_buffer(p, n);
    if (b.ptr() != nullptr) made();
    return b;
  }
  void release(Buffer b) override {
    if (b.ptr() != nullptr) counts_.live--;
    real_.release(b);
  }

 private:
  void made() {
    int64_t now = ++counts_.live, p = counts_.peak;
    counts_.total++;
    while (now > p && !counts_.peak.compare_exchange_weak(p, now)) {
    }
  }

  Allocator& real_;
  Counts& counts_;
  int64_t limit_;
};

}  // namespace

Allocator& allocator() {
  static Allocator* counting = [] {
    auto real = reinterpret_cast<Allocator& (*)()>(dlsym(RTLD_NEXT, "_ZN3mlx4core9allocator9allocatorEv"));
    return new Counting(real());
  }();
  return *counting;
}

}  // namespace mlx::core::allocator
