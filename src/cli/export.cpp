#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <utility>

#include "cli/sample.h"
#include "comm/agreement.h"
#include "comm/mesh.h"
#include "gpt/gpt.h"
#include "store/weights.h"

namespace nanofsdp::cli {
namespace {

void write_shards(Context& context, std::unique_ptr<comm::Communicator> world,
                  const ExportOptions& o, const train::WeightsInfo& info) {
  comm::Mesh mesh(std::move(world));
  const store::Metadata metadata = train::metadata_of(info);
  comm::require_agreement(mesh.world(), *context.compute, "the model",
                          fingerprint(o.settings + fmt::format("{}", metadata)),
                          "start all with the same command, and give all the same files");
  gpt::GPT model(info.config);
  fsdp::ShardedModel sharded(context, model, mesh, {.wrap_policy = fsdp::is_a<gpt::Block>});
  load(o, sharded);
  store::save_sharded_weights(o.to, sharded, metadata);
  if (context.rank == 0) fmt::print("saved weights in {} files: {}\n", mesh.size(), o.to);
}

}  // namespace

comm::RankBody prepare_export(const ExportOptions& options, int /*rank*/) {
  return [&options, info = std::make_shared<const train::WeightsInfo>(read_info(options))](
             Context& context, std::unique_ptr<comm::Communicator> world) {
    write_shards(context, std::move(world), options, *info);
  };
}

}  // namespace nanofsdp::cli
