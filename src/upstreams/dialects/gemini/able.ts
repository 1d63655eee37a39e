/** What a request may ask for and Gemini has no place for: told before anybody is asked, with the path of the field. Pure. */
import type { UpstreamError } from '../../../domain/error.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import { unsupportedField, unsupportedValue } from '../refuse.ts'
import { toPart } from './parts.ts'

/**
 * Returns the refusal of the first field that Gemini cannot be sent, and that means too much to be left out; or null.
 * @param isSince3 whether the model is of Gemini 3 or later.
 */
export function findUnable(body: CanonicalRequest, isSince3: boolean): UpstreamError | null {
  return findField(body, isSince3) ?? findTool(body) ?? findPart(body)
}

function findField(body: CanonicalRequest, isSince3: boolean): UpstreamError | null {
  if (body.logit_bias && Object.keys(body.logit_bias).length > 0)
    return unsupportedField('logit_bias', 'its API has nothing like it.')
  if (body.audio) return unsupportedField('audio', NOT_SPOKEN)
  if (body.modalities?.includes('audio')) return unsupportedValue('modalities', NOT_SPOKEN)
  if (body.web_search_options && !isSince3 && (body.tools?.length || body.functions?.length))
    return unsupportedField('web_search_options', 'a model before Gemini 3 searches only where it has no functions.')
  if (body.moderation) return unsupportedField('moderation', 'its API has nothing like it.')
  return null
}

const NOT_SPOKEN = 'its answers are not spoken.'
const FUNCTIONS_ONLY = 'it calls functions only.'

/** Names that begin otherwise are refused there. */
const NAME = /^[A-Za-z_]/

function findTool({ tools, functions, tool_choice: choice }: CanonicalRequest): UpstreamError | null {
  for (const [at, tool] of (tools ?? []).entries()) {
    if (tool.type === 'custom') return unsupportedValue(`tools[${at}].type`, FUNCTIONS_ONLY)
    if (!NAME.test(tool.function.name)) return toBadName(`tools[${at}].function.name`)
  }
  const at = functions?.findIndex(({ name }) => !NAME.test(name)) ?? -1
  if (at >= 0) return toBadName(`functions[${at}].name`)
  const isCustom = typeof choice === 'object' && choice?.type === 'custom'
  return isCustom ? unsupportedValue('tool_choice', FUNCTIONS_ONLY) : null
}

const toBadName = (param: string) =>
  unsupportedValue(param, 'there the name of a function begins with a letter or an underscore.')

function findPart({ messages }: CanonicalRequest): UpstreamError | null {
  for (let index = 0; index < messages.length; index++) {
    const message = messages[index]
    const content = message?.content
    if (typeof content === 'string' || !content) continue
    for (let at = 0; at < content.length; at++) {
      const part = content[at]
      const param = `messages[${index}].content[${at}]`
      if (part?.type === 'text' || part?.type === 'refusal') continue
      if (message?.role === 'tool' && part?.type !== 'image_url')
        return unsupportedValue(param, 'what tools answer is text and pictures there.')
      if (toPart(part) === undefined) return unsupportedValue(param, 'it is none of the parts that its API takes.')
    }
  }
  return null
}
