/** The legacy `function_call` in the manner of tool calls: its name once, with empty arguments, then their pieces. Pure. */
import type { FunctionCall } from '../../../domain/answer.ts'
import { asObject, asText } from '../../../domain/json.ts'
import { createJoiner } from './join.ts'
import { toArgumentText } from './tool-entry.ts'

export interface LegacyCall {
  take(value: unknown): Partial<FunctionCall>[]
  end(complete: boolean): Partial<FunctionCall>[]
  any(): boolean
}

export function createLegacyCall(): LegacyCall {
  const joiner = createJoiner()
  let name = ''
  let text = ''

  const toPieces = (piece: string) => (piece === '' ? [] : [{ arguments: piece }])
  return {
    take(value) {
      const call = asObject(value)
      if (!call) return []
      const piece = toArgumentText(call.arguments)
      text += piece
      if (name !== '') return toPieces(joiner.take(piece))
      name = asText(call.name)
      return name === '' ? [] : [{ name, arguments: '' }, ...toPieces(joiner.take(text))]
    },
    end(complete) {
      if (name === '') return []
      return toPieces(joiner.end() + (complete && text.trim() === '' ? '{}' : ''))
    },
    any: () => name !== '',
  }
}
