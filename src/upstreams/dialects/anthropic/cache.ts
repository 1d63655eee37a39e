/**
 * Where the prompt cache begins anew: marks are taken over from wherever a client puts them. The API takes four, and those of
 * an hour before those of five minutes. Pure.
 */
import { asObject } from '../../../domain/json.ts'
import type { Block, CacheControl, WireBody } from './wire.ts'

const MOST = 4

/** Reads the mark of a request, a message, a part or a tool: Anthropic's own, or OpenAI's. Null where it has none. */
export function toCacheControl(holder: object): CacheControl | null {
  const own = asObject(Reflect.get(holder, 'cache_control'))
  if (own?.type === 'ephemeral') {
    return own.ttl === '1h' || own.ttl === '5m' ? { type: 'ephemeral', ttl: own.ttl } : { type: 'ephemeral' }
  }
  return asObject(Reflect.get(holder, 'prompt_cache_breakpoint')) ? { type: 'ephemeral' } : null
}

type Marked = { cache_control?: CacheControl }

/** Marks the last block that may carry a mark. */
export function markLast(blocks: readonly object[], cache: CacheControl): void {
  const last = blocks.findLast((block) => !/thinking/.test(String(Reflect.get(block, 'type'))))
  if (last) (last as Marked).cache_control ??= cache
}

/** Leaves no more marks than are taken, the last ones, and none of an hour behind one of five minutes. */
export function keepMarks(body: WireBody): void {
  const holders: Marked[] = [...(body.tools ?? []), ...(body.system ?? [])]
  for (const { content } of body.messages) for (const block of content) addHolders(block, holders)
  const marked = holders.filter((holder) => holder.cache_control !== undefined)
  // The one of the request stands for a mark on its last block.
  const most = MOST - (body.cache_control ? 1 : 0)
  for (const holder of marked.slice(0, Math.max(0, marked.length - most))) delete holder.cache_control
  let isShort = false
  for (const holder of [...marked, body]) {
    const { cache_control: cache } = holder
    if (cache === undefined) continue
    if (cache.ttl !== '1h') isShort = true
    else if (isShort) holder.cache_control = { type: 'ephemeral' }
  }
}

/** Adds a block behind what is within it: what a tool has answered with, and the parts of a document, may be marked, too. */
function addHolders(block: Block, holders: Marked[]): void {
  if (block.type === 'tool_result' && typeof block.content === 'object')
    for (const part of block.content) addHolders(part, holders)
  if (block.type === 'document' && block.source.type === 'content' && typeof block.source.content === 'object')
    for (const part of block.source.content) holders.push(part)
  if ('cache_control' in block) holders.push(block)
}
