# OpenCV's core and imgproc, found by header and library. Debian keeps OpenCVConfig.cmake in libopencv-dev, which
# brings Qt, VTK and some 300 packages more; libopencv-core-dev and libopencv-imgproc-dev are all we use.
# Defines opencv_core, opencv_imgproc and OpenCV_LIBS, as OpenCVConfig would, and, where it is installed,
# opencv_imgcodecs.
find_path(OPENCV_INCLUDE_DIR opencv2/core.hpp PATH_SUFFIXES opencv4 REQUIRED)
set(OpenCV_LIBS)
foreach(module core imgproc imgcodecs)
  find_library(OPENCV_${module}_LIBRARY opencv_${module})
  if(OPENCV_${module}_LIBRARY AND EXISTS ${OPENCV_INCLUDE_DIR}/opencv2/${module}.hpp)
    add_library(opencv_${module} UNKNOWN IMPORTED)
    set_target_properties(opencv_${module} PROPERTIES
      IMPORTED_LOCATION ${OPENCV_${module}_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${OPENCV_INCLUDE_DIR})
  elseif(NOT module STREQUAL "imgcodecs")
    message(FATAL_ERROR "OpenCV's ${module} was not found; scripts/setup.sh installs it")
  endif()
endforeach()
target_link_libraries(opencv_imgproc INTERFACE opencv_core)
if(TARGET opencv_imgcodecs)
  target_link_libraries(opencv_imgcodecs INTERFACE opencv_imgproc)
endif()
set(OpenCV_LIBS opencv_core opencv_imgproc)
