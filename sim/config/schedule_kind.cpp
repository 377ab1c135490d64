#include "sim/config/schedule_kind.h"

namespace stepsim {

int PipelineShape::virtual_stage(Place at) const {
  switch (placement) {
    case Placement::ring:
      return at.chunk * ranks + at.rank;
    case Placement::vee:
      return at.chunk == 0 ? at.rank : 2 * ranks - 1 - at.rank;
    case Placement::two_way:
      return at.chunk == 0 ? at.rank : ranks - 1 - at.rank;
  }
  return 0;
}

std::optional<Place> PipelineShape::next(Place at) const {
  const int down = at.chunk == 0 || placement == Placement::ring ? 1 : -1, rank = at.rank + down;
  if (rank >= 0 && rank < ranks) return Place{rank, at.chunk};
  if (placement == Placement::two_way || at.chunk + 1 == chunks) return {};
  return Place{placement == Placement::ring ? 0 : at.rank, at.chunk + 1};
}

std::optional<Place> PipelineShape::previous(Place at) const {
  const int up = at.chunk == 0 || placement == Placement::ring ? -1 : 1, rank = at.rank + up;
  if (rank >= 0 && rank < ranks) return Place{rank, at.chunk};
  if (placement == Placement::two_way || at.chunk == 0) return {};
  return Place{placement == Placement::ring ? ranks - 1 : at.rank, at.chunk - 1};
}

MicrobatchRange PipelineShape::microbatches(int chunk, int total) const {
  if (placement != Placement::two_way) return {0, total};
  return {chunk * (total / 2), total / 2};
}

}  // namespace stepsim
