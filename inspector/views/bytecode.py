from ctrace.inspector.explaining import torchs_own
from ctrace.inspector.ownership import taken_over
from ctrace.inspector.stackwalk import walked
def own_pairs(rw,pairs):
    st=walked(rw.after)
    return taken_over(rw,st,torchs_own(st))
