#include "sim/config/spread.h"

#include <boost/math/distributions/normal.hpp>

namespace stepsim {

double expected_largest(int count) {
  if (count <= 1) return 0;
  using Plain = boost::math::policies::policy<boost::math::policies::promote_double<false>>;
  const boost::math::normal_distribution<double, Plain> normal;
  return quantile(normal, (count - 0.375) / (count + 0.25));
}

}  // namespace stepsim
