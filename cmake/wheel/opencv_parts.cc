// OpenCV's loops, run on the thread that asks for them. A worker has threads of its own and tells
// OpenCV to use one (cv::setNumThreads(0)), so its thread pool, and TBB with it, need not be in the
// wheel. These stand for OpenCV's parallel.cpp, which a linker takes from the archive only for what
// is defined nowhere else.
#include <opencv2/core/utility.hpp>

namespace cv {

ParallelLoopBody::~ParallelLoopBody() = default;

void parallel_for_(const Range& range, const ParallelLoopBody& body, double) {
  if (!range.empty()) body(range);
}

int getNumThreads() { return 1; }
int getThreadNum() { return 0; }
int getNumberOfCPUs() { return 1; }
void setNumThreads(int) {}

}  // namespace cv

// Asked for by OpenCV's drawing with OpenGL, which needs a display and which nothing here calls.
extern "C" void* glXGetProcAddressARB(const unsigned char*) { return nullptr; }
