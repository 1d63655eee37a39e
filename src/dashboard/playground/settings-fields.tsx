/** Settings sent with every request: system message, tools, response format, parameters. */
import type { ComponentChildren } from 'preact'
import { Button } from '../ui/controls.tsx'
import { SelectField, SwitchField, TextField } from '../ui/form.tsx'
import {
  EFFORTS,
  EXAMPLE_SCHEMA,
  EXAMPLE_TOOLS,
  type Field,
  NUMBERS,
  readTools,
  type Settings,
  toParametersText,
  VERBOSITIES,
} from './settings.ts'
import { read, settings } from './state.ts'

const set = (changes: Partial<Settings>) => {
  settings.value = { ...settings.value, ...changes }
}
const form = { values: settings, set }

/** Moves focus, since the clicked button disappears. */
const putIn = (name: 'tools' | 'schema', text: string) => {
  set({ [name]: text })
  showField(name)
}

/** Expands the field's section and focuses the field. */
export function showField(name: Field): void {
  const field = document.querySelector<HTMLElement>(`.play-setup [name="${name}"]`)
  const folded = field?.closest('details')
  if (folded) folded.open = true
  field?.focus()
}

export const SettingsFields = () => (
  <div class="play-settings">
    <Folded title="System message" said={settings.value.system.trim() === '' ? '' : firstLine(settings.value.system)}>
      <TextField of={form} name="system" label="System message" lines={4} hint="Sent before the conversation." />
    </Folded>
    <ToolsPart />
    <FormatPart />
    <ParametersPart />
  </div>
)

const MAX_SHOWN = 60
const firstLine = (text: string) => {
  const line = text.trim().split('\n', 1)[0] ?? ''
  return line.length > MAX_SHOWN ? `${line.slice(0, MAX_SHOWN).toWellFormed()}…` : line
}

interface FoldedProps {
  title: string
  /** Summary when collapsed. */
  said: string
  isWrong?: boolean
  children: ComponentChildren
}

const Folded = ({ title, said, isWrong = false, children }: FoldedProps) => (
  <details>
    <summary>
      {title}
      {isWrong && <span class="state bad">needs fixing</span>}
      {!isWrong && said !== '' && <span class="play-said">{said}</span>}
    </summary>
    <div class="form">{children}</div>
  </details>
)

const PARALLEL = [
  ['', 'model default'],
  ['yes', 'yes'],
  ['no', 'no'],
] as const

function ToolsPart() {
  const { tools: typed } = settings.value
  const { problems } = read.value
  const found = typed.trim() === '' ? { tools: [] } : readTools(typed)
  const names = 'tools' in found ? found.tools.map(({ name }) => name) : []
  return (
    <Folded title="Tools" said={names.join(', ')} isWrong={problems.tools !== undefined}>
      <TextField
        of={form}
        name="tools"
        label="Tools (JSON)"
        lines={8}
        isCode
        wrong={problems.tools}
        hint="An array, as in the API. You enter the results of tool calls."
      />
      {typed.trim() === '' && (
        <div>
          <Button onClick={() => putIn('tools', EXAMPLE_TOOLS)}>Insert example</Button>
        </div>
      )}
      {names.length > 0 && (
        <div class="fields">
          <SelectField
            of={form}
            name="tool_choice"
            label="Tool choice"
            options={[
              ['', 'auto'],
              ['required', 'at least one'],
              ['none', 'none'],
              ...names.map((name) => [`tool ${name}`, name] as const),
            ]}
          />
          <SelectField of={form} name="parallel_tool_calls" label="Parallel tool calls" options={PARALLEL} />
        </div>
      )}
    </Folded>
  )
}

const FORMATS = [
  ['', 'text'],
  ['json_object', 'JSON'],
  ['json_schema', 'JSON schema'],
] as const

function FormatPart() {
  const { format, schema } = settings.value
  const { problems } = read.value
  const said = format === '' ? '' : (FORMATS.find(([value]) => value === format)?.[1] ?? '')
  return (
    <Folded title="Response format" said={said} isWrong={problems.schema !== undefined}>
      <SelectField of={form} name="format" label="Format" options={FORMATS} />
      {format === 'json_schema' && (
        <>
          <TextField of={form} name="schema" label="JSON schema" lines={8} isCode wrong={problems.schema} />
          {schema.trim() === '' && (
            <div>
              <Button onClick={() => putIn('schema', EXAMPLE_SCHEMA)}>Insert example</Button>
            </div>
          )}
          <SwitchField
            of={form}
            name="strict"
            label="Strict"
            hint="Requires all properties, allows no others, and guarantees a match."
          />
        </>
      )}
    </Folded>
  )
}

const toOptions = (words: readonly string[]) => [
  ['', 'model default'] as const,
  ...words.map((word) => [word, word] as const),
]

function ParametersPart() {
  const { problems } = read.value
  const isWrong = [...NUMBERS.map(({ name }) => name), 'stop' as const, 'others' as const].some(
    (name) => problems[name] !== undefined,
  )
  return (
    <Folded title="Parameters" said={toParametersText(settings.value)} isWrong={isWrong}>
      <div class="fields">
        {NUMBERS.map(({ name, label, isWhole = false }) => (
          <TextField
            key={name}
            of={form}
            name={name}
            label={label}
            inputMode={name === 'seed' ? 'text' : isWhole ? 'numeric' : 'decimal'}
            placeholder="model default"
            wrong={problems[name]}
          />
        ))}
        <SelectField of={form} name="reasoning_effort" label="Reasoning" options={toOptions(EFFORTS)} />
        <SelectField of={form} name="verbosity" label="Verbosity" options={toOptions(VERBOSITIES)} />
      </div>
      <TextField
        of={form}
        name="stop"
        label="Stop sequences"
        lines={2}
        isCode
        wrong={problems.stop}
        hint="Generation stops at any of these. One per line, at most 4; \n is a line break."
      />
      <TextField
        of={form}
        name="others"
        label="Other fields (JSON)"
        lines={2}
        isCode
        wrong={problems.others}
        placeholder='{ "top_k": 40 }'
        hint="Additional parameters that some upstreams support."
      />
    </Folded>
  )
}
