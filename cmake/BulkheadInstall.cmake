# What `cmake --install` puts where, by component:
#   runtime        the programs, into bin
#   python-stages  what runs Python stages in the user's interpreter, into lib beside that bin
#   development    bulkhead/stage.h, for libraries of native stages
#   client         the C++ client (BulkheadClientPackage)
#   rare-formats   the plugin for BMP, TIFF and PNM, into lib, where a worker in the bin beside it looks
install(TARGETS bulkheadd bulkhead-worker bulkhead-fetch bulkhead-receive bulkhead RUNTIME DESTINATION bin COMPONENT runtime)
if(TARGET bulkhead_imgcodecs)
  install(TARGETS bulkhead_imgcodecs LIBRARY DESTINATION lib COMPONENT rare-formats)
endif()
if(TARGET bulkhead_worker_library)
  install(TARGETS bulkhead_allocations bulkhead_worker_library LIBRARY DESTINATION lib COMPONENT python-stages)
  install(FILES ${PROJECT_SOURCE_DIR}/server/worker/python/worker_host.py DESTINATION lib/bulkhead COMPONENT python-stages)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/server/worker/python/bulkhead_host DESTINATION lib/bulkhead COMPONENT python-stages
          FILES_MATCHING PATTERN "*.py")
  install(FILES ${PROJECT_SOURCE_DIR}/client/python/bulkhead/_dataset/worker/bulkhead_dataset.py
                ${PROJECT_SOURCE_DIR}/client/python/bulkhead/_dataset/worker/bulkhead_leaves.py
          DESTINATION lib/bulkhead/datasets COMPONENT python-stages)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/include/bulkhead/stage.h DESTINATION include/bulkhead COMPONENT development)
