-- Adds a piece for those who follow. KEYS: lease, chunks. ARGV: token, milliseconds, number, piece, most pieces.
-- 0: the lease is another's or nobody's.
local holder = redis.pcall('GET', KEYS[1])
if holder ~= ARGV[1] then return 0 end
redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[5], '*', 't', ARGV[1], 'n', ARGV[3], 'd', ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
