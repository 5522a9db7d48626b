-- Writes what a replica process has counted on a day, once per sequence number.
-- KEYS 1 the day's hash
-- ARGV 1 process, 2 sequence number, 3 'report' or 'settle', 4 fields that the hash may have, then names of rows and their numbers in turn
-- -> {1 written, 0 the number is known, -1 the hash is full; the process' last number before}
local key,process,number,settle=KEYS[1],ARGV[1],tonumber(ARGV[2]),ARGV[3]=='settle'
local marker='p|'..process
local before=tonumber(redis.call('HGET',key,marker) or '0') or 0
if not (before>=0 and before<=9007199254740991) then before=0 end
if number<=before then return {0,before} end
local room=tonumber(ARGV[4])
if settle then room=2*room end -- it makes room
if redis.call('HLEN',key)+(#ARGV-4)/2>=room then return {-1,before} end

local function plus(sum,text)
  if not text or not string.match(text,'^[-0-9 ]+$') then return end
  local n=0
  for word in string.gmatch(text,'%S+') do
    n=n+1
    local v=(sum[n] or 0)+(tonumber(word) or 0)
    sum[n]=math.max(-9007199254740991,math.min(v,9007199254740991))
  end
end

local fields,own={marker,ARGV[2]},{}
for i=5,#ARGV,2 do
  local name,value='o|'..process..'|'..ARGV[i],ARGV[i+1]
  if settle then
    own[#own+1]=name
    name='r|'..ARGV[i]
    local sum={}
    plus(sum,redis.call('HGET',key,name) or nil)
    plus(sum,value)
    for n,v in ipairs(sum) do sum[n]=string.format('%.0f',v) end
    value=table.concat(sum,' ')
  end
  fields[#fields+1]=name
  fields[#fields+1]=value
end
redis.call('HSET',key,unpack(fields))
if #own>0 then redis.call('HDEL',key,unpack(own)) end
return {1,before}
