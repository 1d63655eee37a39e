/** Any body is refused as the client's fault, or becomes a valid request of the chat API. */
import { expect, setDefaultTimeout, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/domain/error.ts'
import { validate } from '../../../src/formats/chat/request.ts'
import { responses } from '../../../src/formats/responses/responses.ts'

setDefaultTimeout(60_000)

const FUNCTION = { type: 'function', name: 'look', parameters: { type: 'object' }, strict: false }

/** A request with every kind of content. */
const RICH = {
  model: 'a/b',
  instructions: 'Be brief.',
  input: [
    { role: 'user', content: 'Hi' },
    {
      type: 'message',
      role: 'user',
      content: [
        { type: 'input_text', text: 'See' },
        { type: 'input_image', image_url: 'https://a', detail: 'low' },
        { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,AA==' },
      ],
    },
    { type: 'reasoning', id: 'rs', summary: [{ type: 'summary_text', text: 'Hm' }], encrypted_content: 'tg1.W10' },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'I', annotations: [] }] },
    { type: 'function_call', call_id: 'a', name: 'look', namespace: 'ns', arguments: '{}' },
    { type: 'custom_tool_call', call_id: 'b', name: 'patch', input: 'x' },
    { type: 'local_shell_call', id: 'lsh_1', call_id: 'c', action: { type: 'exec', command: ['ls'] } },
    { type: 'function_call_output', call_id: 'a', output: [{ type: 'input_text', text: 'seen' }] },
    { type: 'custom_tool_call_output', call_id: 'b', output: 'done' },
    { type: 'local_shell_call_output', id: 'lsh_1', output: 'a.py' },
    { type: 'web_search_call', id: 'ws' },
    { type: 'message', role: 'assistant', content: [{ type: 'refusal', refusal: 'No' }] },
  ],
  tools: [
    FUNCTION,
    { type: 'custom', name: 'patch', format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' } },
    { type: 'namespace', name: 'ns', description: 'N', tools: [FUNCTION] },
    { type: 'local_shell' },
    { type: 'web_search' },
  ],
  tool_choice: { type: 'function', name: 'look' },
  text: { format: { type: 'json_schema', name: 's', schema: { type: 'object' } }, verbosity: 'low' },
  reasoning: { effort: 'low', summary: 'auto' },
  include: ['reasoning.encrypted_content'],
}

test('the base request of these tests is valid', () => {
  expect(responses.toTask(RICH, { text: '', headers: {} })).not.toBeInstanceOf(GatewayError)
})

/** The paths of all values within a value. */
const pathsOf = (value: unknown, at: (string | number)[] = []): (string | number)[][] =>
  typeof value !== 'object' || value === null
    ? [at]
    : [at, ...Object.entries(value).flatMap(([name, held]) => pathsOf(held, [...at, name]))]

function replace(root: unknown, path: (string | number)[], value: unknown): unknown {
  const [name, ...rest] = path
  if (name === undefined) return value
  const copy = Array.isArray(root) ? [...root] : { ...(root as object) }
  Reflect.set(copy, name, replace(Reflect.get(copy, name), rest, value))
  return copy
}

const PATHS = pathsOf(RICH)

const odd = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom<unknown>(undefined, null, '', [], {}, 'function', 'message', 'local_shell', 'a', 'b', -1, Infinity, [
    'x',
  ]),
  fc
    .constantFrom(...PATHS)
    .map((path) => path.reduce<unknown>((held, name) => Reflect.get(held as object, name), RICH)),
)

test('any change of a request is accepted or refused', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.constantFrom(...PATHS), odd), { minLength: 1, maxLength: 3 }), (changes) => {
      let body: unknown = RICH
      for (const [path, value] of changes)
        if (pathsOf(body).some((each) => Bun.deepEquals(each, path))) body = replace(body, path, value)
      const task = responses.toTask(body, { text: '', headers: {} })
      if (task instanceof GatewayError) return expect(task).toMatchObject({ kind: 'invalid_request', status: 400 })
      const checked = validate(task.body)
      if (checked instanceof GatewayError) throw new Error(`${checked.message} ${checked.param}`)
      return true
    }),
    { numRuns: 3_000 },
  )
})
