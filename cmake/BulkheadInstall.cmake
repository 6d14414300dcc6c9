# What `cmake --install` puts where, by component:
#   runtime        the programs, into bin
#   rare-formats   the plugin for BMP, TIFF and PNM, into lib, where a worker in the bin beside it looks
install(TARGETS bulkheadd bulkhead-worker bulkhead RUNTIME DESTINATION bin COMPONENT runtime)
if(TARGET bulkhead_imgcodecs)
  install(TARGETS bulkhead_imgcodecs LIBRARY DESTINATION lib COMPONENT rare-formats)
endif()
