/** What is wrong with the shape of a catalogue, in words for whoever wrote it. Pure. */
import type { Problem } from '../validation/explain.ts'
import { closest, type Issue } from './entry.ts'
import { fieldsAt } from './shape.ts'

/** Rewrites a problem of the shape for whoever edits the file: what else the field could have been. */
export function toIssue({ segments, code, message, path }: Problem): Issue {
  const name = String(segments.at(-1))
  const parent = segments.slice(0, -1)
  if (code === 'unknown_parameter') {
    if (parent[0] === 'upstreams' && parent.length === 2 && name === 'command')
      return {
        segments,
        message:
          'there is no such field. Name the command of a model server as a list: process: [llama-server, --port, "{port}"].',
      }
    return { segments, message: `there is no such field${closest(name, fieldsAt(parent))}.` }
  }
  if (code === 'missing_required_parameter') return { segments: parent, message: `${name} is missing.` }
  if (code === 'invalid_type' && segments.includes('pricing') && name !== 'pricing')
    return { segments, message: `${strip(message, path)} Write a price in quotes, such as "0.00000015".` }
  return { segments, message: strip(message, path) }
}

/** The path stands before each sentence already. */
const strip = (message: string, path: string) => message.replace(` for '${path}'`, '').replace(` '${path}'`, '')
