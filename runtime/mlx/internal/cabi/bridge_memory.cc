// MLX's memory figures and limits, and what the device says of itself.
#include <cstring>

#ifdef __APPLE__
#include <mach/mach.h>
#else
#include <unistd.h>

#include <cstdio>
#endif

#include "bridge_internal.h"
#include "mlx/backend/metal/metal.h"
#include "mlx/memory.h"

namespace mx = mlx::core;
using namespace ingot;

size_t ig_memory(int figure) {
  switch (figure) {
    case IG_ACTIVE: return mx::get_active_memory();
    case IG_PEAK: return mx::get_peak_memory();
    case IG_CACHE: return mx::get_cache_memory();
    case IG_MEMORY_LIMIT: return mx::get_memory_limit();
  }
  return 0;
}

#ifdef __APPLE__
uint64_t ig_process_bytes(void) {
  task_vm_info_data_t info;
  mach_msg_type_number_t n = TASK_VM_INFO_COUNT;
  if (task_info(mach_task_self(), TASK_VM_INFO, reinterpret_cast<task_info_t>(&info), &n) != KERN_SUCCESS) return 0;
  return info.phys_footprint;
}
#else
uint64_t ig_process_bytes(void) {
  FILE* f = std::fopen("/proc/self/statm", "r");
  if (f == nullptr) return 0;
  unsigned long all = 0, pages = 0;
  int read = std::fscanf(f, "%lu %lu", &all, &pages);
  std::fclose(f);
  return read == 2 ? uint64_t(pages) * uint64_t(sysconf(_SC_PAGESIZE)) : 0;
}
#endif

int ig_set_memory(int setting, size_t bytes, size_t* old, char* text) {
  return guard(text, Phase::build, [=] {
    switch (setting) {
      case IG_SET_MEMORY: *old = mx::set_memory_limit(bytes); return;
      case IG_SET_CACHE: *old = mx::set_cache_limit(bytes); return;
      case IG_SET_WIRED: *old = mx::set_wired_limit(bytes); return;
    }
    throw std::invalid_argument("no memory setting " + std::to_string(setting));
  });
}

int ig_device_info(ig_info* info, char* text) {
  return guard(text, Phase::build, [=] {
    const auto& all = mx::device_info(mx::default_device());
    auto number = [&all](const char* key) -> uint64_t {
      auto it = all.find(key);
      return it != all.end() && std::holds_alternative<size_t>(it->second) ? std::get<size_t>(it->second) : 0;
    };
    *info = ig_info{};
    info->resource_limit = number("resource_limit");
    info->memory = number("memory_size");
    if (info->memory == 0) info->memory = number("total_memory");
    info->working_set = number("max_recommended_working_set_size");
    auto it = all.find("architecture");
    if (it != all.end() && std::holds_alternative<std::string>(it->second))
      std::strncpy(info->architecture, std::get<std::string>(it->second).c_str(), sizeof(info->architecture) - 1);
  });
}

int ig_set_metallib(const char* path, char* text) {
  try {
    mx::metal::set_metallib_path(path);
    return IG_OK;
  } catch (const std::exception& e) {
    copy_text(text, e.what());
    return IG_INVALID;
  }
}
