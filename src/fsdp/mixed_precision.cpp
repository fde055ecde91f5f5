#include "fsdp/mixed_precision.h"

#include <string>

#include "base/check.h"

namespace nanofsdp::fsdp {

DType parse_dtype(std::string_view option, std::string_view name) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    if (name == name_of(dtype)) return dtype;
  }
  throw UsageError({.what = std::string(option),
                    .expected = "float32 or bfloat16",
                    .got = "'" + std::string(name) + "'"});
}

}  // namespace nanofsdp::fsdp
