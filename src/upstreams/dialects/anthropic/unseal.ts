/**
 * Thoughts that were sealed here, in a request that goes on as it came: each as its upstream has signed it where it goes back there,
 * and left out anywhere else, for nobody else knows the signature. Pure.
 */
import { asList, asObject, asText } from '../../../domain/json.ts'
import { isSealed, unseal } from '../../../domain/sealed-thoughts.ts'
import { findMembers, spliceItems } from '../../../domain/splice.ts'
import type { NativeRequest } from '../../../domain/task.ts'
import { toThoughts } from './thoughts.ts'

/** The text of the request's messages, where any of them has such a thought; else null. */
export function unsealMessages({ text, json }: NativeRequest, signer: string): string | null {
  const messages = asList(json.messages)
  const held = messages.some(hasSealed) && findMembers(text)?.findLast(({ name }) => name === 'messages')
  if (!held) return null
  return spliceItems(text, held.from, (message, at) =>
    hasSealed(messages[at]) ? unsealOne(message, messages[at], signer) : null,
  )
}

const hasSealed = (message: unknown): boolean =>
  asList(asObject(message)?.content).some((block) => sealedIn(block) !== '')

/** What of a block was sealed; '' where nothing was. */
function sealedIn(value: unknown): string {
  const block = asObject(value)
  const held = block?.type === 'thinking' ? block.signature : block?.type === 'redacted_thinking' ? block.data : ''
  return isSealed(asText(held)) ? asText(held) : ''
}

/** A message of which nothing is left is left out. */
function unsealOne(message: string, value: unknown, signer: string): readonly string[] {
  const blocks = asList(asObject(value)?.content)
  const held = findMembers(message)?.findLast(({ name }) => name === 'content')
  if (!held) return [message]
  const content = spliceItems(message, held.from, (_, at) => {
    const sealed = sealedIn(blocks[at])
    if (sealed === '') return null
    const details = unseal(sealed, asText(asObject(blocks[at])?.thinking)) ?? []
    return toThoughts(details, signer).map((block) => JSON.stringify(block))
  })
  if (content === null || content === '[]') return []
  return [message.slice(0, held.from) + content + message.slice(held.to)]
}
