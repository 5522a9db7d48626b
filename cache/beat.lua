-- Holds a lease for longer. KEYS: lease, chunks. ARGV: token, milliseconds.
-- −1: it is another's or nobody's; 0: held; 1: held, and somebody follows.
local holder = redis.pcall('GET', KEYS[1])
if holder ~= ARGV[1] then return -1 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('EXISTS', KEYS[2]) -- those who follow keep it
