-- Keeps a calibrated score of a route under the next number.
-- KEYS 1 the hash; ARGV 1 route, 2 the score, 3 how many are kept, 4 largest number, 5 one that is kept
-- -> its number
local field=ARGV[1]..'/versions'
local versions={}
for word in string.gmatch(redis.call('HGET',KEYS[1],field) or '','%d+') do
  local n=tonumber(word)
  if n>=1 and n<tonumber(ARGV[4]) and #versions<1024 then versions[#versions+1]=n end
end
table.sort(versions)
local version=(versions[#versions] or 0)+1
versions[#versions+1]=version
redis.call('HSET',KEYS[1],ARGV[1]..'/'..version,ARGV[2])
while #versions>tonumber(ARGV[3]) do
  local oldest=1
  if versions[1]==tonumber(ARGV[5]) then oldest=2 end
  redis.call('HDEL',KEYS[1],ARGV[1]..'/'..table.remove(versions,oldest))
end
redis.call('HSET',KEYS[1],field,table.concat(versions,' '))
return version
