-- What a script of Redis sees, and the way from a call of Python to one script and back.
-- Given: command(...) and parse(text) of Python. A reply of `command` is one value, or `true` and
-- the values of a list, or nil, 'ok' or 'err', and a text.
local command, parse = ...
local find, format, gsub, select, type, unpack = string.find, string.format, string.gsub, select, type, unpack

local function answer(first, ...)
  if first == true then return {...} end
  if first == nil then
    local kind, text = ...
    return {[kind] = text}
  end
  return first
end

local redis = {}
function redis.call(...)
  local reply = answer(command(...))
  if type(reply) == 'table' and reply.err then error(reply, 0) end
  return reply
end
function redis.pcall(...) return answer(command(...)) end

-- cjson as lua-cjson has it by default.
local null = newproxy()
local DEPTH_MAX, SPARSE_RATIO, SPARSE_SAFE, MADE_MAX = 1000, 2, 10, 5000
local escapes = {['"'] = '\\"', ['\\'] = '\\\\', ['/'] = '\\/', ['\b'] = '\\b', ['\f'] = '\\f',
  ['\n'] = '\\n', ['\r'] = '\\r', ['\t'] = '\\t'}
local function escaped(character)
  return escapes[character] or format('\\u%04x', string.byte(character))
end
local function quoted(text)
  if find(text, '[%c"\\/]') then text = gsub(text, '[%z%c"\\/]', escaped) end
  return '"' .. text .. '"'
end
local function numeral(number)
  if number ~= number or number == 1 / 0 or number == -1 / 0 then
    error('Cannot serialise number: must not be NaN or Inf', 0)
  end
  return format('%.14g', number)
end

-- How long the array is, 0 or below when it is to be an object.
local function array_length(value)
  local last, count = 0, 0
  for name in next, value do
    if type(name) ~= 'number' or name < 1 or name % 1 ~= 0 then return -1 end
    last, count = math.max(last, name), count + 1
  end
  if last > count * SPARSE_RATIO and last > SPARSE_SAFE then
    error('Cannot serialise table: excessively sparse array', 0)
  end
  return last
end

local encode
local function encode_table(value, depth)
  if depth > DEPTH_MAX then
    error('Cannot serialise, excessive depth (' .. depth .. ')', 0)
  end
  local parts, length = {}, array_length(value)
  if length > 0 then
    for i = 1, length do parts[i] = encode(value[i], depth) end
    return '[' .. table.concat(parts, ',') .. ']'
  end
  for name, each in next, value do -- Lua makes a text of a number
    parts[#parts + 1] = quoted(name) .. ':' .. encode(each, depth)
  end
  return '{' .. table.concat(parts, ',') .. '}'
end

function encode(value, depth)
  local kind = type(value)
  if kind == 'string' then return quoted(value) end
  if kind == 'number' then return numeral(value) end
  if kind == 'boolean' then return value and 'true' or 'false' end
  if kind == 'table' then return encode_table(value, depth + 1) end
  if value == nil or value == null then return 'null' end
  error('Cannot serialise ' .. kind .. ': type not supported', 0)
end

-- A text is made into a function once, which makes the same value anew each time.
local made, made_count = {}, 0
local function decode(text)
  local make = made[text]
  if not make then
    local source, trouble = parse(text)
    if not source then error(trouble, 0) end
    if made_count >= MADE_MAX then made, made_count = {}, 0 end
    make = assert(loadstring(source))
    made[text], made_count = make, made_count + 1
  end
  return make(null)
end

local environment = {
  redis = redis,
  cjson = {null = null, decode = decode, encode = function(value) return encode(value, 0) end},
  string = string, table = table, math = math, assert = assert, error = error,
  getmetatable = getmetatable, ipairs = ipairs, next = next, pairs = pairs, pcall = pcall,
  rawequal = rawequal, rawget = rawget, rawset = rawset, select = select,
  setmetatable = setmetatable, tonumber = tonumber, tostring = tostring, type = type,
  unpack = unpack, xpcall = xpcall,
}
math.random, math.randomseed = nil, nil -- no two runs would be the same
setmetatable(environment, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
  __newindex = function() error('Attempt to modify a readonly table', 2) end,
})

collectgarbage("setpause", 1000)
local function load(text)
  local script, trouble = loadstring(text, '@user_script')
  if not script then error(trouble, 0) end
  return setfenv(script, environment)
end

-- A list goes back as `true` and its values; what is no plain value as nil and its kind.
local AT_ONCE = 4000 -- unpack has a limit of about 8,000; Python goes through a longer one
local function reply(value)
  if value == true then return 1 end
  if type(value) ~= 'table' then return value end
  if type(rawget(value, 'err')) == 'string' then return nil, 'err', value.err end
  if type(rawget(value, 'ok')) == 'string' then return nil, 'ok', value.ok end
  if #value > AT_ONCE then return nil, 'long', value, #value end
  return true, unpack(value)
end

local function finished(done, value)
  if done then return reply(value) end
  if type(value) == 'table' and value.err then return nil, 'err', value.err end
  return nil, 'failed', value
end

local function run_long(script, keys, arguments)
  rawset(environment, 'KEYS', keys)
  rawset(environment, 'ARGV', arguments)
  return finished(pcall(script))
end

local function run(script, count, ...)
  local keys = {}
  for i = 1, count do keys[i] = (select(i, ...)) end
  return run_long(script, keys, {select(count + 1, ...)})
end

return load, run, run_long, reply
