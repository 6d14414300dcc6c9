#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bulkhead/batch.h"

namespace bulkhead::tools {

// Element `index` of a tensor of numbers, whatever its type; of a complex one the real
// part, 0 for byte strings.
double ElementAt(const Tensor& tensor, uint64_t index);

// Of the finite elements of a tensor's first samples.
struct TensorStats {
  uint64_t finite = 0;
  uint64_t not_finite = 0;  // infinities and what is not a number
  double min = 0;
  double max = 0;
  double mean = 0;
};
TensorStats ComputeStats(const Tensor& tensor, uint64_t samples);
// Of the elements from `first` up to `end`, padding among them.
TensorStats ComputeStats(const Tensor& tensor, uint64_t first, uint64_t end);

TensorStats ComputeStats(const std::vector<double>& numbers);

// Of the elements of both.
TensorStats Together(const TensorStats& a, const TensorStats& b);

// "  min -2.1  max 2.6  mean 0.03", and how many are not finite; empty where there is no element.
std::string DescribeStats(const TensorStats& stats);

// Elements of one of the tensor's rows: of a sample, where samples are not packed by rows.
uint64_t ElementsOfRow(const Tensor& tensor);

// The number of the first element of `sample`; of that behind the last one, how many there are.
uint64_t FirstElementOf(const Tensor& tensor, uint64_t sample);

// "image  float32[64,3,224,224]  min -2.1 max 2.6 mean 0.03": one line about the first `samples`
// samples; for byte strings the first of them.
std::string DescribeTensor(const Tensor& tensor, uint64_t samples);

}  // namespace bulkhead::tools
