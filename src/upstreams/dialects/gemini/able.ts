/** What a request may ask for and Gemini has no place for: told before anybody is asked, with the path of the field. Pure. */
import type { CanonicalRequest } from '../../../domain/request.ts'
import { toPart } from './parts.ts'

/** A field, and why it cannot be sent. */
export interface Unable {
  param: string
  why: string
}

/** Returns the first field of a request that Gemini cannot be sent, and that means too much to be left out; or null. */
export function findUnable(body: CanonicalRequest): Unable | null {
  return findField(body) ?? findTool(body) ?? findPart(body)
}

function findField(body: CanonicalRequest): Unable | null {
  if (body.logit_bias && Object.keys(body.logit_bias).length > 0)
    return { param: 'logit_bias', why: 'its API has nothing like it' }
  if (body.modalities?.includes('audio') || body.audio)
    return { param: body.audio ? 'audio' : 'modalities', why: 'its answers are not spoken' }
  if (body.moderation) return { param: 'moderation', why: 'its API has nothing like it' }
  return null
}

/** Names that begin otherwise are refused there. */
const NAME = /^[A-Za-z_]/

function findTool({ tools, functions, tool_choice: choice }: CanonicalRequest): Unable | null {
  for (const [at, tool] of (tools ?? []).entries()) {
    if (tool.type === 'custom') return { param: `tools[${at}].type`, why: 'it calls functions only' }
    if (!NAME.test(tool.function.name)) return toBadName(`tools[${at}].function.name`)
  }
  const at = functions?.findIndex(({ name }) => !NAME.test(name)) ?? -1
  if (at >= 0) return toBadName(`functions[${at}].name`)
  if (typeof choice === 'object' && choice?.type === 'custom')
    return { param: 'tool_choice', why: 'it calls functions only' }
  return null
}

const toBadName = (param: string): Unable => ({
  param,
  why: 'there the name of a function begins with a letter or an underscore',
})

function findPart({ messages }: CanonicalRequest): Unable | null {
  for (let index = 0; index < messages.length; index++) {
    const message = messages[index]
    const content = message?.content
    if (typeof content === 'string' || !content) continue
    for (let at = 0; at < content.length; at++) {
      const part = content[at]
      const param = `messages[${index}].content[${at}]`
      if (part?.type === 'text' || part?.type === 'refusal') continue
      if (message?.role === 'tool' && part?.type !== 'image_url')
        return { param, why: 'what tools answer is text and pictures there' }
      if (toPart(part) === undefined) return { param, why: 'it is none of the parts that its API takes' }
    }
  }
  return null
}
