"""How much of Ethernet's line rate TCP delivers."""

MTU = 1500  # bytes of a packet
HEADERS = 20 + 32  # of IP, and of TCP with time stamps
FRAME = 14  # of Ethernet, as a kernel's shaper counts it
GOODPUT_SHARE = (MTU - HEADERS) / (MTU + FRAME)  # TCP's payload as a share of the line rate, .956
