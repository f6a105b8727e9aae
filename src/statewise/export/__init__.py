"""Networks and machines for use elsewhere: ONNX, programs of torch.export, C.

steps          one step of a network, as a module: what every format is made of
onnx_graph     trackers as ONNX, node by node, and the loop of any step
onnx_traced    other networks as ONNX, their step by torch's exporter
programs       torch.export, with free batch and length
network_files  files, read back and compared
c_header       C99
"""

from statewise.rooms import make_callable

# `sw.export(...)` writes a network for use elsewhere
make_callable(__name__)
