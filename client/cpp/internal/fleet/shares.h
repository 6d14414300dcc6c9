#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"

namespace bulkhead::client_internal {

// Gives each batch to a replica, as many to each as its measured rate allows.
//
// Every replica's count of batches stays within one of its share, which is its part of the rates
// together, also while the rates change (R. Tijdeman, The chairman assignment problem, 1980). A
// replica that could not make a batch while the others make a whole window of them gets none, but
// for one now and then that measures it again. Pure: times, since any fixed moment, are passed in.
// Not thread-safe. Its twin is client/python/bulkhead/_fleet/shares.py.
class Shares {
 public:
  using Replica = uint64_t;
  // A replica that is too slow for the window is given a batch after this long.
  static constexpr absl::Duration kProbe = absl::Seconds(5);

  // A replica that nothing is known of; it counts as an average one.
  void Join(Replica replica, absl::Duration now);
  void Leave(Replica replica);
  // A batch took it that long, beginning with the batch before or when it was asked for one.
  void Measured(Replica replica, absl::Duration time);
  // It has made no batch for so long that others make its batches, too.
  void Late(Replica replica, absl::Duration time);

  bool is_late(Replica replica) const { return known_.at(replica).late; }
  // For a batch, as far as it is known.
  std::optional<absl::Duration> time(Replica replica) const;
  // The share of each replica; they add up to 1. `window` in batches.
  std::map<Replica, double> Of(uint64_t window) const;

  // Who makes the next batch; there must be somebody. `probe`: a replica without a share may get
  // it.
  Replica Choose(uint64_t window, absl::Duration now, bool probe);

 private:
  struct Known {
    std::optional<double> seconds;  // for a batch
    bool warm = false;              // the first batch came, which workers had to be started for
    bool probed = false;  // the next time is that of the batch it was given to see whether it still
                          // is too slow
    bool late = false;
    double owed = 0;  // batches that were due to it, less those that it was given
    absl::Duration given;
  };

  // What was owed among others than these is no longer.
  void Settle();
  // Of those to whom enough is owed, the one that first must have its batch.
  Replica Next(const std::map<Replica, double>& shares) const;

  std::map<Replica, Known> known_;
};

}  // namespace bulkhead::client_internal
