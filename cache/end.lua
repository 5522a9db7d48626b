-- Gives a lease back. Those who follow get the whole answer, or an empty one: there is none.
-- KEYS: lease, chunks. ARGV: token, milliseconds that it can be read, number, entry.
-- An entry "?" asks whether it is wanted: 2 says so, and nothing was done. 0: the lease is another's or nobody's.
local holder = redis.pcall('GET', KEYS[1])
if holder ~= ARGV[1] then return 0 end
if redis.call('EXISTS', KEYS[2]) == 1 then
  if ARGV[4] == '?' then return 2 end
  redis.pcall('XADD', KEYS[2], '*', 't', ARGV[1], 'n', ARGV[3], 'e', ARGV[4])
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
redis.call('DEL', KEYS[1])
return 1
