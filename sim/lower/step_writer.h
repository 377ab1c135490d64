// Writes one step into a task graph: templates, collectives with their members, messages.
//
// A collective of several simulated members is a rendezvous: each arrives (zero length) on its own
// queue, all meet, each one's transfer follows; that of one stands alone and takes as long.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/lower/lowered.h"
#include "sim/lower/meeting.h"
#include "sim/lower/resources.h"
#include "sim/lower/template_writer.h"
#include "sim/network/collective.h"
#include "sim/parallel/folding.h"
#include "sim/parallel/mesh.h"

namespace stepsim {

/// Owns the graph builder while a step is written.
class StepWriter {
 public:
  StepWriter(const Scenario& scenario, const Mesh& mesh, const Folding& folding,
             const Fabric& fabric);

  /// Stamps `t`; every label starts as `base` (layer, chunk, microbatch). Returns its first kernel.
  TaskId stamp(uint32_t device, const Template& t, Label base);
  /// A template of two microbatches: the second one's labels start as `other`.
  TaskId stamp(uint32_t device, const Template& t, Label base, Label other);
  /// A kernel outside any template.
  TaskId kernel(uint32_t device, const Kernel& modelled, Label label);
  /// An injected delay: the compute stream stands for that long once what it waits for is there.
  void delay(uint32_t device, Seconds duration, Label label);
  /// A collective behind the device's compute so far; what needs it waits through `wait`.
  TaskId collective(uint32_t device, Meeting meeting, Stream stream, const CollectiveCost& cost,
                    Label label);
  /// A copy engine's transfer behind the device's compute so far; meets nobody.
  void copy(uint32_t device, Stream stream, const CollectiveCost& cost, Label label);
  /// The device's next kernel waits for `task`.
  void wait(uint32_t device, TaskId task) { pending_[device].push_back(task); }
  /// The host waits for everything issued on the device so far.
  void device_sync(uint32_t device, Label label);
  /// Host work that launches nothing.
  void host_work(uint32_t device, Seconds duration, Label label);
  /// Host work that the device waits for even where launches are not modelled (a captured step).
  void host_block(uint32_t device, Seconds duration, Label label);

  /// Sender's (or receiver's) half of a message; its transfer starts when both have been posted.
  void post_send(const MessageKey& key, bool asynchronous);
  void post_receive(const MessageKey& key);
  TaskId transfer(const MessageKey& key);

  TaskId compute_tail(uint32_t d) const { return builder_.tail(stream_id(d, Stream::compute)); }
  const GroupPlacement& placement(uint32_t device, Meeting meeting) const {
    return placements_[device][static_cast<size_t>(meeting)];
  }
  const RankFault& fault(uint32_t device) const { return faults_[device]; }
  uint32_t device_count() const { return static_cast<uint32_t>(pending_.size()); }
  TaskGraphBuilder& builder() { return builder_; }
  std::vector<RendezvousMember>& members() { return members_; }

 private:
  void place_groups(const Fabric& fabric);
  /// Where a group sits, at the pace of its slowest member.
  GroupPlacement place_faulty(std::span<const int> ranks, const Fabric& fabric) const;
  SharedKinds shared_kinds() const;
  void find_routes(const Fabric& fabric);
  int stage_neighbour(int rank, int offset) const;
  /// A collective of one member: behind its arrival when the group has several simulated ones.
  Entered enter(uint32_t device, Meeting meeting, StreamId stream, double duration, Label label);
  CollectiveClaims claims_of(uint32_t device, Meeting meeting, TransferLoad load);
  const std::vector<CollectiveClaims>& claims_of(uint32_t device, const Template& t);
  void claim(const Entered& entered, double latency_seconds, const CollectiveClaims& claims);
  /// The host's part of a template: its wait, and its launches.
  TaskId launch(uint32_t device, const LaunchSegment& segment, Label base);
  /// One launch queue: `task` starts no sooner than what was issued before it on its queue.
  void issue(uint32_t device, Stream stream, TaskId task);
  TransferLoad message_load(const MessageKey& key) const;
  TransferLoad yielding(TransferLoad load, bool userbuffers) const;
  void drain_pending(uint32_t device, TaskId task);
  /// A zero-length task on `stream` behind everything that the device's next kernel waits for.
  TaskId arrive(uint32_t device, StreamId stream, const MessageKey& key, const TransferLoad& load);

  const Scenario& s_;
  const Mesh& mesh_;
  const Folding& folding_;
  bool host_;  ///< launches are modelled (no given costs, no captured iteration)
  TaskGraphBuilder builder_;
  std::vector<RankFault> faults_;             ///< by device
  std::vector<std::vector<TaskId>> pending_;  ///< by device
  /// By device and meeting: smallest member device and number of simulated members.
  struct Peers {
    uint32_t leader = 0, count = 1, sequence = 0;
  };
  std::vector<std::array<Peers, static_cast<size_t>(Meeting::count)>> peers_;
  std::vector<std::array<GroupPlacement, static_cast<size_t>(Meeting::count)>> placements_;
  std::array<std::vector<std::vector<TaskId>>, static_cast<size_t>(Meeting::count)> meets_;
  std::vector<std::vector<TaskId>> messages_;  ///< by receiver: direction, chunk, microbatch
  std::vector<CollectiveCost> message_costs_;  ///< by sender: to the next and to the previous stage
  std::vector<RendezvousMember> members_;
  std::unique_ptr<Resources> resources_;
  /// By template and device: the claims of its operations.
  std::map<std::pair<const Template*, uint32_t>, std::vector<CollectiveClaims>> template_claims_;
  /// By device: the last task of each launch queue and its stream.
  std::vector<std::vector<std::pair<TaskId, Stream>>> issued_;
  std::array<size_t, stream_count> queue_of_{};
  /// Free-form graphs: the links over which a device sends to the next domain, by meeting.
  std::vector<std::array<std::vector<ResourceId>, static_cast<size_t>(Meeting::count)>> routes_;
  std::vector<std::vector<ResourceId>> message_routes_;  ///< as message_costs_
  double launch_seconds_ = 0;
  std::vector<TaskId> scratch_;
};
uint32_t neighbour(const Mesh& mesh, const Folding& folding, uint32_t device, int offset);

}  // namespace stepsim
