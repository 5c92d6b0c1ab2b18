import sys,subprocess
sys.path[:0]=['tests/vm','tests/aid']
import rdma_hosts as h
n=int(sys.argv[1])
open('/proc/sys/net/core/netdev_max_backlog','w').write('100000')
h.begin(n)
r=subprocess.run(['build/ranktrace','stress','rdma','--time','0.5',*sys.argv[2:]],capture_output=True,text=True)
print(r.stdout,r.stderr,r.returncode)
