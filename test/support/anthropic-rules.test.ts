/** The scripted Anthropic refuses these requests, with messages like the real one's. */
import { expect, test } from 'bun:test'
import { toSignature } from './anthropic-answers.ts'
import { ABLE, type Ability, findRefusal } from './anthropic-rules.ts'

type Fields = Record<string, unknown>
const user = (content: unknown) => ({ role: 'user', content })
const assistant = (content: unknown) => ({ role: 'assistant', content })
const HELLO = { model: 'claude', max_tokens: 2_000, messages: [user('Hi')] }
const refusalOf = (fields: Fields, can: Partial<Ability> = {}, version = '2023-06-01') =>
  findRefusal({ ...HELLO, ...fields }, { ...ABLE, ...can }, version)

const tools = [{ name: 'f', input_schema: { type: 'object' } }]
const use = { type: 'tool_use', id: 'a', name: 'f', input: {} }
const result = { type: 'tool_result', tool_use_id: 'a', content: 'x' }
const text = { type: 'text', text: 'Well' }
const mark = { cache_control: { type: 'ephemeral' } }
const marked = (count: number) => Array.from({ length: count }, () => ({ ...text, ...mark }))
const enabled = { type: 'enabled', budget_tokens: 1_024 }
const formatOf = (schema: object) => ({ output_config: { format: { type: 'json_schema', schema } } })

const REFUSED: [string, Fields, RegExp, Partial<Ability>?, string?][] = [
  ['a field that it does not know', { seed: 1 }, /Extra inputs are not permitted/],
  ['no cap', { max_tokens: undefined }, /max_tokens/],
  ['a cap that is too large', { max_tokens: 64_001 }, /maximum allowed/],
  ['blank text', { messages: [user([{ type: 'text', text: ' ' }])] }, /non-whitespace/],
  ['an assistant first', { messages: [assistant('Hi')] }, /first message must use the "user" role/],
  ['blank space at the end', { messages: [user('Hi'), assistant('So ')] }, /trailing whitespace/],
  [
    'a call without its result',
    { messages: [user('Hi'), assistant([use]), user('So?')], tools },
    /without `tool_result`/,
  ],
  ['a result without its call', { messages: [user([result])], tools }, /unexpected `tool_use_id`/],
  [
    'words before results',
    { messages: [user('Hi'), assistant([use]), user([text, result])], tools },
    /must come first/,
  ],
  [
    'words after a call',
    { messages: [user('Hi'), assistant([use, text]), user([result])], tools },
    /nothing may follow/,
  ],
  ['ids in another alphabet', { messages: [user('Hi'), assistant([{ ...use, id: 'a:1' }])], tools }, /id/],
  ['two tools of one name', { tools: [...tools, ...tools] }, /unique/],
  ['a tool that is none', { tools, tool_choice: { type: 'tool', name: 'g' } }, /not found/],
  ['a tool without an object', { tools: [{ name: 'f', input_schema: { type: 'string' } }] }, /tools\.0/],
  ['temperature and top_p', { temperature: 0.5, top_p: 0.5 }, /cannot both/],
  ['temperature in the newer version', { temperature: 1 }, /Extra inputs/, {}, '2026-10-21'],
  ['temperature of a model without one', { temperature: 1 }, /Extra inputs/, { sampling: false }],
  ['temperature and thinking', { temperature: 0.5, thinking: { type: 'adaptive' } }, /may only be set to 1/],
  [
    'a forced tool and thinking',
    { tools, tool_choice: { type: 'any' }, thinking: { type: 'adaptive' } },
    /forces tool use/,
  ],
  [
    'a budget beyond the cap',
    { thinking: { ...enabled, budget_tokens: 2_000 } },
    /greater than/,
    { thinking: 'budget' },
  ],
  ['a small budget', { thinking: { ...enabled, budget_tokens: 100 } }, /budget_tokens/, { thinking: 'budget' }],
  ['a budget of a model without one', { thinking: enabled }, /not supported by this model/],
  [
    'thinking off where it cannot be',
    { thinking: { type: 'disabled' } },
    /not supported by this model/,
    { off: false },
  ],
  ['an effort that it does not know', { output_config: { effort: 'xhigh' } }, /effort level 'xhigh'/],
  [
    'thoughts that were forgotten',
    { messages: [user('Hi'), assistant([use]), user([result])], tools, thinking: enabled },
    /must start with a thinking block/,
    { thinking: 'budget' },
  ],
  [
    'thoughts that were changed',
    {
      messages: [
        user('Hi'),
        assistant([{ type: 'thinking', thinking: 'b', signature: toSignature('a') }, text]),
        user('So'),
      ],
    },
    /Invalid `signature`/,
  ],
  ['five marks of the cache', { messages: [user(marked(5))] }, /maximum of 4 blocks/],
  ['four marks and one of the request', { messages: [user(marked(4))], ...mark }, /maximum of 4 blocks/],
  [
    'an hour behind five minutes',
    { messages: [user([...marked(1), { ...text, cache_control: { type: 'ephemeral', ttl: '1h' } }])] },
    /must not come after/,
  ],
  [
    'a schema with bounds',
    formatOf({ type: 'object', properties: { a: { minimum: 1 } }, additionalProperties: false }),
    /'minimum' is not/,
  ],
  ['a schema that is open', formatOf({ type: 'object', properties: {} }), /explicitly set to false/],
]

for (const [what, fields, sentence, can, version] of REFUSED)
  test(`refuses ${what}`, () => {
    expect(refusalOf(fields, can, version)).toMatch(sentence)
  })

test('accepts valid requests', () => {
  const thought = { type: 'thinking', thinking: 'a', signature: toSignature('a') }
  expect(refusalOf({})).toBeNull()
  expect(refusalOf({ messages: [user(marked(3))], ...mark })).toBeNull()
  expect(
    refusalOf(
      { messages: [user('Hi'), assistant([thought, text, use]), user([result, text])], tools, thinking: enabled },
      { thinking: 'budget' },
    ),
  ).toBeNull()
})
