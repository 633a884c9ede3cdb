// The ledger: MLX's buffers, counted at its allocator.
//
// MLX keeps its own count private. Every allocation passes through the virtual
// table of the one object behind allocator::allocator(), so that object is given
// a copy of its table in which four functions count before they pass the call on.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "bridge_internal.h"
#include "mlx/allocator.h"

namespace mx = mlx::core;
using mx::allocator::Allocator;
using mx::allocator::Buffer;

namespace {

// A count of live things with its peak, its total and a limit (0: none).
struct Count {
  std::atomic<int64_t> live{0}, peak{0}, total{0}, limit{0};

  // Adds first and compares after, so that two threads cannot pass the limit together.
  bool add(int64_t n) {
    int64_t now = live.fetch_add(n) + n;
    int64_t most = limit.load(std::memory_order_relaxed);
    if (most > 0 && now > most) {
      live.fetch_sub(n);
      return false;
    }
    return true;
  }
  void commit(int64_t n) {
    total.fetch_add(n, std::memory_order_relaxed);
    int64_t now = live.load(), p = peak.load();
    while (now > p && !peak.compare_exchange_weak(p, now)) {
    }
  }
  void sub(int64_t n) { live.fetch_sub(n); }
};

Count buffers, bytes;
std::atomic<int64_t> freed_since_clear{0}, fail_in{0}, fired{0};
std::atomic<bool> supported{false};

// The Itanium ABI's table: offset to top, type information, then the functions
// in the order of the class: malloc, free, size, make_buffer, release, and two destructors.
enum Slot { malloc_at = 2, free_at, size_at, make_buffer_at, release_at, words = 9 };
void* table[words];
Buffer (*real_malloc)(Allocator*, size_t);
void (*real_free)(Allocator*, Buffer);
Buffer (*real_make_buffer)(Allocator*, void*, size_t);
void (*real_release)(Allocator*, Buffer);

// MLX's own words, so that whoever reads them meets one text on every backend.
[[noreturn]] void throw_resource_limit(int64_t limit) {
  throw std::runtime_error("[metal::malloc] Resource limit (" + std::to_string(limit) + ") exceeded.");
}
[[noreturn]] void throw_memory(size_t n) {
  throw std::runtime_error("[malloc] Unable to allocate " + std::to_string(n) + " bytes.");
}

void maybe_fail() {
  if (fail_in.load(std::memory_order_relaxed) <= 0) return;
  if (fail_in.fetch_sub(1) != 1) return;
  fired.fetch_add(1);
  throw_resource_limit(buffers.limit.load());
}

Buffer counted_malloc(Allocator* a, size_t n) {
  maybe_fail();
  if (!buffers.add(1)) throw_resource_limit(buffers.limit.load());
  if (!bytes.add(int64_t(n))) {
    buffers.sub(1);
    throw_memory(n);
  }
  auto undo = [n] {
    buffers.sub(1);
    bytes.sub(int64_t(n));
  };
  Buffer b{nullptr};
  try {
    b = real_malloc(a, n);
  } catch (...) {
    undo();
    throw;
  }
  if (b.ptr() == nullptr) {
    undo();
    // Metal answers a request for nothing with nothing; the CPU backend answers so when memory is out.
    if (n > 0) throw_memory(n);
    return b;
  }
  int64_t size = int64_t(a->size(b));
  // The allocator rounds up, or reuses a larger buffer: that counts too.
  if (!bytes.add(size - int64_t(n))) {
    undo();
    real_free(a, b);
    throw_memory(n);
  }
  buffers.commit(1);
  bytes.commit(size);
  return b;
}

void forget(Allocator* a, Buffer& b) {
  if (b.ptr() == nullptr) return;
  buffers.sub(1);
  bytes.sub(int64_t(a->size(b)));
}

void counted_free(Allocator* a, Buffer b) {
  forget(a, b);
  if (b.ptr() != nullptr) freed_since_clear.fetch_add(1, std::memory_order_relaxed);
  real_free(a, b);
}

Buffer counted_make_buffer(Allocator* a, void* p, size_t n) {
  Buffer b = real_make_buffer(a, p, n);
  if (b.ptr() == nullptr) return b;
  int64_t size = int64_t(a->size(b));
  buffers.live.fetch_add(1);
  bytes.live.fetch_add(size);
  buffers.commit(1);
  bytes.commit(size);
  return b;
}

void counted_release(Allocator* a, Buffer b) {
  forget(a, b);
  real_release(a, b);
}

}  // namespace

namespace ingot {

void install_ledger() {
  Allocator& a = mx::allocator::allocator();
  void** live = *reinterpret_cast<void***>(&a);
  if (live == table + malloc_at) return;
  std::memcpy(table, live - malloc_at, sizeof(table));
  real_malloc = reinterpret_cast<decltype(real_malloc)>(table[malloc_at]);
  real_free = reinterpret_cast<decltype(real_free)>(table[free_at]);
  real_make_buffer = reinterpret_cast<decltype(real_make_buffer)>(table[make_buffer_at]);
  real_release = reinterpret_cast<decltype(real_release)>(table[release_at]);
  table[malloc_at] = reinterpret_cast<void*>(counted_malloc);
  table[free_at] = reinterpret_cast<void*>(counted_free);
  table[make_buffer_at] = reinterpret_cast<void*>(counted_make_buffer);
  table[release_at] = reinterpret_cast<void*>(counted_release);
  *reinterpret_cast<void***>(&a) = table + malloc_at;
}

void probe_ledger() {
  int64_t before = buffers.total.load();
  mx::eval(mx::add(mx::full({32}, 1.0f), array(2.0f)));
  // The constants are made by the host; the sum is what the device allocates.
  supported = buffers.total.load() - before >= 3;
}

}  // namespace ingot

void ig_ledger_read(ig_ledger* l) {
  l->live = buffers.live, l->peak = buffers.peak, l->total = buffers.total, l->limit = buffers.limit;
  l->live_bytes = bytes.live, l->peak_bytes = bytes.peak, l->total_bytes = bytes.total, l->limit_bytes = bytes.limit;
  // A backend that caches nothing has nothing to bound.
  l->cached_upper = mx::get_cache_memory() == 0 ? 0 : freed_since_clear.load();
  l->fired = fired;
  l->supported = supported ? 1 : 0;
}

void ig_ledger_reset_peak(void) {
  if (!supported) mx::reset_peak_memory(); // MLX's own figure stands in
  buffers.peak = buffers.live.load();
  bytes.peak = bytes.live.load();
}

void ig_ledger_set_limits(int64_t most_buffers, int64_t most_bytes) {
  buffers.limit = std::max<int64_t>(most_buffers, 0);
  bytes.limit = std::max<int64_t>(most_bytes, 0);
}

void ig_ledger_fail_at(int64_t n) { fail_in = n; }

void ig_ledger_clear_cache(void) {
  // Before, not after: what is freed meanwhile may survive the clear.
  freed_since_clear = 0;
  mx::clear_cache();
}

void ig_ledger_settle(int64_t limit_us, int64_t quiet_us) {
  using clock = std::chrono::steady_clock;
  auto start = clock::now(), moved = start;
  int64_t last = buffers.live;
  for (auto now = start; now - start < std::chrono::microseconds(limit_us); now = clock::now()) {
    int64_t live = buffers.live;
    if (live != last) last = live, moved = now;
    if (now - moved >= std::chrono::microseconds(quiet_us)) return;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}
