#include "server/supervisor/worker/compartment.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace bulkhead {
namespace {

constexpr char kPrivate[] = "kernel-private";
constexpr char kWatchdog[] = "watchdog";

absl::Status Required(const absl::Status& why) {
  return absl::FailedPreconditionError(
      absl::StrCat("no cgroup is available for the workers (", std::string(why.message()),
                   "), but --quota-enforcement is require_cgroup; give the service a writable "
                   "cgroup, or use best-effort"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Compartment>> Compartment::Open(const Config& config) {
  auto tree = CgroupTree::Open(config.name, config.sources);
  if (!tree.ok() && config.require_cgroup) return Required(tree.status());
  std::string reason = tree.ok() ? "" : std::string(tree.status().message());
  std::unique_ptr<Compartment> compartment(
      new Compartment(tree.ok() ? *std::move(tree) : nullptr, std::move(reason), config));
  spdlog::info("workers' memory is limited at level {}{}", compartment->level(),
               compartment->reason().empty() ? "" : ": " + compartment->reason());
  return compartment;
}

Compartment::Compartment(std::unique_ptr<CgroupTree> tree, std::string reason, const Config& config)
    : tree_(std::move(tree)), reason_(std::move(reason)), required_(config.require_cgroup) {
  if (!config.seccomp) no_seccomp_ = "it is switched off (--sandbox)";
}

const char* Compartment::LevelWithoutCgroup() const {
  return no_seccomp_.empty() ? kPrivate : kWatchdog;
}

std::string Compartment::reason() const {
  if (tree_ != nullptr) return "";
  if (no_seccomp_.empty()) return reason_;
  return absl::StrCat(reason_,
                      "; and no seccomp filter closes the ways around RLIMIT_DATA: ", no_seccomp_);
}

void Compartment::NoteWithoutSeccomp(const std::string& reason) {
  if (!no_seccomp_.empty()) return;
  no_seccomp_ = reason.empty() ? "no reason was given" : reason;
  spdlog::warn(
      "a worker runs without its seccomp filter ({}); workers' memory is limited at level {}",
      no_seccomp_, level());
}

absl::StatusOr<CgroupLeaf> Compartment::MakeLeaf(pid_t pid, const CgroupLimits& limits) {
  auto leaf = tree_->MakeLeaf(absl::StrCat("worker-", next_leaf_++), limits);
  if (!leaf.ok()) return leaf;
  if (absl::Status added = leaf->Add(pid); !added.ok()) return added;
  return leaf;
}

absl::StatusOr<std::unique_ptr<Compartment::Cell>> Compartment::Admit(pid_t pid,
                                                                      uint64_t quota_bytes,
                                                                      uint32_t threads,
                                                                      uint32_t extra_threads) {
  RemoveLeft();
  std::optional<CgroupLeaf> leaf;
  if (tree_ != nullptr && quota_bytes > 0) {
    auto made = MakeLeaf(pid, {.memory_bytes = quota_bytes + kOverheadBytes,
                               .max_threads = threads + extra_threads + kSpareThreads,
                               .cpu_threads = threads});
    if (!made.ok() && required_) return Required(made.status());
    if (made.ok()) {
      leaf.emplace(*std::move(made));
    } else {
      spdlog::warn("worker {} has no cgroup: {}", pid, std::string(made.status().message()));
    }
  }
  return std::unique_ptr<Cell>(new Cell(this, std::move(leaf)));
}

void Compartment::RemoveLeft() {
  if (tree_ != nullptr && abandoned_) abandoned_ = !tree_->RemoveAbandoned();
  std::erase_if(left_, [](CgroupLeaf& leaf) { return leaf.Remove().ok(); });
}

Compartment::Cell::~Cell() {
  if (!leaf_.has_value()) return;
  leaf_->Kill();  // ends only processes that the worker may have started
  if (!leaf_->Remove().ok()) compartment_->left_.push_back(*std::move(leaf_));
}

uint64_t Compartment::Cell::OomKills() const {
  if (!leaf_.has_value()) return 0;
  // A leaf holds one process, which the kernel may count twice.
  return std::min<uint64_t>(1, leaf_->OomKills().value_or(0));
}

}  // namespace bulkhead
