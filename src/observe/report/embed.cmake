# What `attune report` writes into each page: template, style, script and chart specifications of this directory, and the
# charting library, Vega (BSD 3-clause) as Debian's libjs-vega installs it. Vega is not part of this source tree; where
# it is not installed, everything else is built and `attune report` says what is missing.
#
# Included by CMakeLists.txt this adds the generated file to the library; run as a script it generates it.

# In an order in which each finds what it requires. Maps of the earth, force layouts and other modules are left out.
set(ATTUNE_VEGA_MODULES util canvas time format loader scale statistics dataflow event-selector expression interpreter
    scenegraph selection functions runtime parser view encode transforms view-transforms)

if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(ATTUNE_VEGA_DIR /usr/share/javascript/vega CACHE PATH "Where Debian's libjs-vega lies; what is not there leaves `attune report` out")
  set(ATTUNE_VEGA_LICENCE /usr/share/doc/libjs-vega/copyright CACHE FILEPATH "The licence of libjs-vega")
  set(report_source ${CMAKE_CURRENT_LIST_DIR})
  set(report_inputs ${report_source}/embed.cmake ${report_source}/page.html ${report_source}/page.css
      ${report_source}/page.js)
  foreach(chart lines heat map bars)
    list(APPEND report_inputs ${report_source}/${chart}.vg.json)
  endforeach()
  set(report_vega ${ATTUNE_VEGA_LICENCE})
  foreach(module ${ATTUNE_VEGA_MODULES})
    list(APPEND report_vega ${ATTUNE_VEGA_DIR}/vega-${module}.min.js)
  endforeach()
  set(report_has_vega ON)
  foreach(file ${report_vega})
    if(NOT EXISTS ${file})
      set(report_has_vega OFF)
    endif()
  endforeach()
  if(NOT report_has_vega)
    set(report_vega)
    message(STATUS "No Vega in ${ATTUNE_VEGA_DIR} (Debian: libjs-vega): `attune report` will not work")
  endif()
  set(report_assets ${CMAKE_CURRENT_BINARY_DIR}/report_assets.cpp)
  add_custom_command(OUTPUT ${report_assets}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${report_assets} -DVEGA=$<$<BOOL:${report_has_vega}>:${ATTUNE_VEGA_DIR}>
      -DLICENCE=${ATTUNE_VEGA_LICENCE} -P ${report_source}/embed.cmake
    DEPENDS ${report_inputs} ${report_vega} VERBATIM)
  target_sources(attune PRIVATE ${report_assets})
  set_source_files_properties(${report_assets} PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
  return()
endif()

# A module of the library is a CommonJS one, which the page has no loader for but these few words.
function(read_library result)
  file(READ ${LICENCE} licence)
  string(REPLACE "*/" "* /" licence "${licence}")
  set(text "/* Vega, as Debian's libjs-vega packages it, with the parts of D3 (Copyright 2010-2022 Mike Bostock, License: ISC) that it
is built from.\n\n${licence}*/\n")
  string(APPEND text "const vega = (() => {\n\"use strict\";\nconst modules = {};\nconst require = (name) => modules[name];\n")
  foreach(module ${ATTUNE_VEGA_MODULES})
    file(READ ${VEGA}/vega-${module}.min.js code)
    string(REGEX REPLACE "//# sourceMappingURL=[^\n]*" "" code "${code}")
    string(REPLACE "selection" "selections" name "${module}")  # the file's name lacks an s
    string(APPEND text "modules[\"vega-${name}\"] = (() => { const exports = {}, module = { exports };\n${code}\nreturn exports; })();\n")
  endforeach()
  string(APPEND text "for (const name of [\"encode\", \"transforms\", \"view-transforms\"]) "
    "Object.assign(modules[\"vega-dataflow\"].transforms, modules[\"vega-\" + name]);\n"
    "return Object.assign({}, ...[\"interpreter\", \"parser\", \"scale\", \"view\"].map((name) => modules[\"vega-\" + name]));\n})();\n")
  string(TOLOWER "${text}" lower)
  string(FIND "${lower}" "</script" closing)
  if(NOT closing EQUAL -1)
    message(FATAL_ERROR "${VEGA}: holds </script, which would end the script of a page")
  endif()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

set(here ${CMAKE_CURRENT_LIST_DIR})
file(READ ${here}/page.html page)
file(READ ${here}/page.css style)
file(READ ${here}/page.js script)
set(specs "{")
foreach(chart lines heat map bars)
  file(READ ${here}/${chart}.vg.json spec)
  string(APPEND specs "\"${chart}\":${spec},")
endforeach()
string(REGEX REPLACE ",$" "}" specs "${specs}")
set(library "")
if(VEGA)
  read_library(library)
endif()

set(code "#include \"observe/report/assets.h\"\n\nnamespace attune::report_assets {\n\n")
foreach(asset page style script specs library)
  string(APPEND code "std::string_view ${asset}() {\n  return R\"attune(${${asset}})attune\";\n}\n\n")
endforeach()
string(APPEND code "}  // namespace attune::report_assets\n")
file(WRITE ${OUTPUT} "${code}")
