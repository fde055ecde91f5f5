#include "base/library.h"

#include <dlfcn.h>

#include "base/check.h"

namespace nanofsdp {

Library::Library(const std::string& name, const std::string& folder)
    : name_(name), handle_(dlopen(name.c_str(), RTLD_NOW)) {
  if (handle_ == nullptr) handle_ = dlopen((folder + "/" + name).c_str(), RTLD_NOW);
  NANOFSDP_REFUSE_IF(handle_ == nullptr, .what = "library " + name,
                     .expected = "to find it where the system looks, or in " + folder,
                     .got = dlerror(),
                     .hint = "name its folder in LD_LIBRARY_PATH, or use --device=cpu");
}

void* Library::find(const char* function) const {
  if (void* const address = dlsym(handle_, function)) return address;
  NANOFSDP_REFUSE(.what = "library " + name_,
                  .expected = std::string("a version that has ") + function,
                  .got = "one that has not", .hint = "install a newer one");
}

}  // namespace nanofsdp
