-- Adds a piece for those who follow. KEYS: lease, chunks. ARGV: token, number, piece, most pieces.
-- 0: the lease is another's or nobody's; 2: nobody follows any more.
local holder = redis.pcall('GET', KEYS[1])
if holder ~= ARGV[1] then return 0 end
if redis.call('EXISTS', KEYS[2]) == 0 then return 2 end
redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[4], '*', 't', ARGV[1], 'n', ARGV[2], 'd', ARGV[3])
return 1
