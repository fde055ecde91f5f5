#include "fsdp/adamw.h"

#include "ops/adamw.h"

namespace nanofsdp::fsdp {

void AdamW::update(Stream& stream, const Update& u) {
  ops::adamw(stream, {.param = u.values,
                      .grad = u.gradients,
                      .m = u.state[0],
                      .v = u.state[1],
                      .lr = u.lr,
                      .beta1 = options_.beta1,
                      .beta2 = options_.beta2,
                      .eps = options_.eps,
                      .weight_decay = options_.decays(u.parameter) ? options_.weight_decay : 0,
                      .step = u.step,
                      .grad_scale = u.grad_scale});
}

}  // namespace nanofsdp::fsdp
