-- Deletes fields that still have the value for which they are deleted.
-- KEYS[1] hash; ARGV pairs: field, value -> how many
local gone=0
for i=1,#ARGV,2 do
  if redis.call('HGET',KEYS[1],ARGV[i])==ARGV[i+1] then gone=gone+redis.call('HDEL',KEYS[1],ARGV[i]) end
end
return gone
