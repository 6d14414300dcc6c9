# The programs of the wheel (scripts/wheel.sh): they need nothing of the system but its C library and libgcc_s.
# Debian has archives of most libraries; of the others, and of what is not position-independent in those, the few
# sources that are needed are compiled here, from Debian's source packages in BULKHEAD_STATIC_SOURCES.
option(BULKHEAD_STATIC "Build the programs of the wheel: small, with their libraries inside" OFF)
if(NOT BULKHEAD_STATIC)
  return()
endif()

set(BULKHEAD_STATIC_SOURCES ${PROJECT_SOURCE_DIR}/build/wheel-sources CACHE PATH "Where scripts/wheel.sh unpacks Debian's sources")
if(NOT MOLD)
  message(FATAL_ERROR "The wheel's programs are linked by mold, which scripts/setup.sh installs")
endif()
enable_language(ASM_NASM)

# Where there is an archive, it is taken.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
add_compile_options(-ffunction-sections -fdata-sections)
# Equal functions become one: nothing here compares addresses of functions. It spares 180 KB of the wheel.
add_link_options(-static-libstdc++ -Wl,--gc-sections,--icf=all)
# Of what is linked, only GCC's C++ library wants a function of a C library newer than 2.34.
add_library(bulkhead_old_glibc STATIC cmake/wheel/arc4random.cc)
link_libraries(bulkhead_old_glibc)
# What does not run with each sample is made small.
set(BULKHEAD_QUICK -Os)

# bulkhead_bundled(TARGET PACKAGE SOURCES pattern… [INCLUDE folder…] [DEFINE …] [LINK …]) - a library from the Debian source
# PACKAGE: TARGET is what the rest of the build links, the patterns and folders are those of its source.
function(bulkhead_bundled target package)
  cmake_parse_arguments(ARG "" "" "SOURCES;INCLUDE;DEFINE;LINK" ${ARGN})
  file(GLOB folder ${BULKHEAD_STATIC_SOURCES}/${package}-*)
  set(sources)
  foreach(pattern ${ARG_SOURCES})
    file(GLOB found ${folder}/${pattern})
    if(NOT folder OR NOT found)
      message(FATAL_ERROR "There is no ${package}-*/${pattern} in ${BULKHEAD_STATIC_SOURCES}; scripts/wheel.sh unpacks it there")
    endif()
    list(APPEND sources ${found})
  endforeach()
  list(TRANSFORM ARG_INCLUDE PREPEND ${folder}/)
  string(MAKE_C_IDENTIFIER bundled_${target} name)
  add_library(${name} STATIC ${sources})
  add_library(${target} ALIAS ${name})
  target_include_directories(${name} PRIVATE ${ARG_INCLUDE})
  # Their warnings are their authors', and the assembler knows none of these options.
  get_target_property(options ${name} COMPILE_OPTIONS)
  set_property(TARGET ${name} PROPERTY COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:C,CXX>:${options};-Os;-w>")
  target_compile_definitions(${name} PUBLIC ${ARG_DEFINE})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
endfunction()

# What Debian has no archives of: called in place of the find_package of each.
function(bulkhead_bundle_libraries)
  bulkhead_bundled(fmt::fmt fmtlib SOURCES src/format.cc)
  bulkhead_bundled(spdlog::spdlog spdlog SOURCES src/async.cpp src/color_sinks.cpp src/spdlog.cpp src/stdout_sinks.cpp
                   DEFINE SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL LINK fmt::fmt Threads::Threads)
  bulkhead_bundled(PkgConfig::SPNG libspng SOURCES spng/spng.c LINK ZLIB::ZLIB)
  bulkhead_bundled(PkgConfig::PROMETHEUS prometheus-cpp SOURCES core/src/*.cc core/src/detail/*.cc
                   INCLUDE core/src core/include DEFINE PROMETHEUS_CPP_CORE_STATIC_DEFINE)
  bulkhead_bundled(PkgConfig::ISAL libisal SOURCES crc/*.asm crc/crc_base.c crc/crc64_base.c INCLUDE crc/ include/)
endfunction()

# Makes the imported targets that are shared libraries their archives. Debian's CMake files know only the former.
function(bulkhead_take_archives)
  get_property(targets DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTY IMPORTED_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL SHARED_LIBRARY)
      continue()
    endif()
    get_target_property(location ${target} LOCATION)
    string(REGEX REPLACE "[.]so[.0-9]*$" ".a" archive ${location})
    if(NOT EXISTS ${archive})
      continue()
    endif()
    get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
    foreach(configuration ${configurations})
      set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} ${archive})
    endforeach()
  endforeach()
  # Those that stand for a part of OpenCV and gRPC, before their archives.
  target_sources(opencv_core INTERFACE ${PROJECT_SOURCE_DIR}/cmake/wheel/opencv_parts.cc)
  target_sources(gRPC::grpc INTERFACE ${PROJECT_SOURCE_DIR}/cmake/wheel/grpc_unused.cc)
endfunction()

# Debian's archives of Protobuf, Abseil and libjpeg-turbo are compiled for programs. A shared library can be made of them, as
# nothing of theirs is seen outside it, but for the files that have variables of a thread or name the C library's stderr.
function(bulkhead_position_independent target)
  file(GLOB protobuf ${BULKHEAD_STATIC_SOURCES}/protobuf-*/src)
  file(GLOB abseil ${BULKHEAD_STATIC_SOURCES}/abseil-*)
  file(GLOB jpeg ${BULKHEAD_STATIC_SOURCES}/libjpeg-turbo-*)
  set(sources
    ${protobuf}/google/protobuf/arena.cc ${protobuf}/google/protobuf/stubs/common.cc
    ${abseil}/absl/base/internal/sysinfo.cc ${abseil}/absl/container/internal/raw_hash_set.cc
    ${abseil}/absl/strings/internal/cordz_functions.cc ${abseil}/absl/strings/internal/str_format/parser.cc
    ${jpeg}/jerror.c)
  target_sources(${target} PRIVATE ${sources})
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "-w;-I${protobuf};-idirafter${jpeg};-idirafter${CMAKE_BINARY_DIR}/jpeg")
  set(COPYRIGHT_YEAR 2023)
  set(INLINE inline)
  configure_file(${jpeg}/jversion.h.in ${CMAKE_BINARY_DIR}/jpeg/jversion.h @ONLY)
  configure_file(${jpeg}/jconfigint.h.in ${CMAKE_BINARY_DIR}/jpeg/jconfigint.h @ONLY)
endfunction()
