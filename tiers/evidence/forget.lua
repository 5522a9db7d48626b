-- Forgets keys: those named, or of the ones offered those that nobody has used for long.
-- KEYS 1 the index, then hashes; ARGV 1 '1' all of them or '0' the old ones, 2 keys at most, 3 seconds that a key is kept,
--   4 and where there are as many as there may be, then the names of the hashes
-- -> how many were forgotten
local now=tonumber(redis.call('TIME')[1])
local gone=0
for i=2,#KEYS do
  local name=ARGV[i+3]
  local kept=tonumber(ARGV[3])
  if redis.call('ZCARD',KEYS[1])>=tonumber(ARGV[2]) then kept=tonumber(ARGV[4]) end
  local at=tonumber(redis.call('ZSCORE',KEYS[1],name) or 'none')
  if ARGV[1]=='1' or (at and now-at>kept) then
    redis.call('DEL',KEYS[i])
    redis.call('ZREM',KEYS[1],name)
    gone=gone+1
  end
end
return gone
