/** Form fields of keys and teams, built from their definitions; upstreams and tokens share some. */

import type { ComponentChildren } from 'preact'
import { useId, useState } from 'preact/hooks'
import { keysOf } from '../../domain/json.ts'
import { isLimit, LIMITS, mapLimits } from '../../domain/limits.ts'
import { count } from '../../domain/text.ts'
import { columnOf, type FieldsOf, type Kind } from '../../keys/definition.ts'
import { toPrices } from '../figures/figures.ts'
import { useTeams } from '../teams/data.ts'
import { type FormState, SelectField, TextField } from '../ui/form.tsx'
import { useModels } from './data.ts'
import { EXPIRIES, type Values } from './values.ts'

interface InputProps {
  form: FormState<Values>
  name: string
  title: string
  hint?: string | undefined
  /** The ceiling as text; replaces the hint. */
  most?: string | undefined
  /** Label of the option that keeps the current expiry; null if there is none. */
  kept?: string | null | undefined
}

const PERIOD_OPTIONS = [
  ['month', 'month'],
  ['week', 'week'],
  ['day', 'day'],
  ['total', 'total (never resets)'],
] as const

const INPUTS: Readonly<Record<Kind, (props: InputProps) => ComponentChildren>> = {
  text: ({ form, name, title, hint, most }) => (
    <TextField of={form} name={name} label={title} hint={most ?? hint} autoFocus={name === 'name'} />
  ),
  patterns: (props) => <ModelsField {...props} />,
  ranges: ({ form, name, title, hint, most }) => (
    <TextField of={form} name={name} label={title} hint={most ?? hint} isCode lines={2} />
  ),
  scope: ({ form, name, title, most }) => (
    <SelectField
      of={form}
      name={name}
      label={title}
      hint={most}
      options={[
        ['all', 'All'],
        ['local', 'Local only: no data goes to providers'],
      ]}
    />
  ),
  team: (props) => <TeamField {...props} />,
  count: ({ form, name, title, hint, most }) => (
    <TextField of={form} name={name} label={title} inputMode="numeric" placeholder="no limit" hint={most ?? hint} />
  ),
  budget: ({ form, name, title, most }) => (
    <div class="fields">
      <TextField of={form} name={name} label={title} before="$" inputMode="decimal" placeholder="none" hint={most} />
      <SelectField of={form} name="budget_period" label="Period" options={PERIOD_OPTIONS} />
    </div>
  ),
  time: ({ form, kept, most }) => <ExpiryFields form={form} kept={kept} most={most} />,
  metadata: ({ form, name, title, hint }) => (
    <TextField of={form} name={name} label={title} hint={hint} isCode lines={2} />
  ),
}

/** Collapsed while empty. */
const FOLDED: readonly Kind[] = ['scope', 'ranges', 'metadata']

interface FieldsProps<Changes> {
  form: FormState<Values>
  of: FieldsOf<Changes>
  /** Values of an untouched form. */
  empty: Values
  /** Ceilings as text, by column. */
  most?: Readonly<Record<string, string>>
  kept?: string | null
}

export function SettableFields<Changes>({ form, of: fields, empty, most = {}, kept }: FieldsProps<Changes>) {
  const inputs = keysOf(fields).map((name) => {
    const { kind, title, hint } = fields[name]
    const column = columnOf(name)
    const Input = INPUTS[kind]
    const input = <Input key={name} {...{ form, name: column, title, hint, most: most[column], kept }} />
    return { kind, column, input, isOfBudget: isLimit(name) || kind === 'budget' }
  })
  const open = inputs.filter(({ kind }) => !FOLDED.includes(kind))
  const folded = inputs.filter(({ kind }) => FOLDED.includes(kind))
  const at = open.findIndex(({ isOfBudget }) => isOfBudget)
  // Decided once, so that erasing a value doesn't collapse the field.
  const [isOpen] = useState(() => folded.some(({ column }) => form.values.value[column] !== empty[column]))
  const others = (some: typeof inputs) => some.filter(({ isOfBudget }) => !isOfBudget).map(({ input }) => input)
  return (
    <>
      {others(open.slice(0, at))}
      <fieldset>
        <legend>Budget and limits</legend>
        {open.filter(({ kind }) => kind === 'budget').map(({ input }) => input)}
        <RateFields form={form} most={most} />
      </fieldset>
      {others(open.slice(at))}
      <details open={isOpen}>
        <summary>Restrictions and metadata</summary>
        <div class="form">{others(folded)}</div>
      </details>
    </>
  )
}

interface RateFieldsProps {
  form: FormState<Values>
  most?: Readonly<Record<string, string>>
}

export const RateFields = ({ form, most = {} }: RateFieldsProps) => (
  <div class="fields">
    {Object.values(mapLimits((name) => INPUTS.count({ form, name, title: LIMITS[name].label, most: most[name] })))}
  </div>
)

/** False until the lists of options have loaded, so that they don't move the fields below. */
export const useChoicesRead = (): boolean =>
  [useTeams(), useModels()].every(({ data, problem }) => data !== null || problem !== null)

function TeamField({ form, name, title, hint }: InputProps) {
  const teams = useTeams().data ?? []
  if (teams.length === 0) return null
  const options = [['', 'None'], ...teams.map(({ id, name }) => [id, name] as const)] as const
  return <SelectField of={form} name={name} label={title} hint={hint} options={options} />
}

const MAX_SHOWN = 50

/** Patterns, with a list of existing models and their prices to pick from. */
function ModelsField({ form, name, title, hint, most }: InputProps) {
  const models = useModels().data ?? []
  const [search, setSearch] = useState('')
  const id = useId()
  const chosen = (form.values.value[name] ?? '').split(/[\s,]+/).filter((line) => line !== '')
  const found = models.filter((model) =>
    `${model.slug} ${model.name}`.toLowerCase().includes(search.trim().toLowerCase()),
  )
  const toggle = (slug: string) => {
    const next = chosen.includes(slug) ? chosen.filter((one) => one !== slug) : [...chosen, slug]
    form.set({ [name]: next.join('\n') })
  }
  return (
    <>
      <TextField
        of={form}
        name={name}
        label={title}
        placeholder="all models"
        hint={most ?? hint}
        isCode
        lines={Math.min(6, Math.max(2, chosen.length))}
      />
      {models.length > 0 && (
        <details>
          <summary>Pick from {count(models.length, 'model')}</summary>
          <div class="field">
            {models.length > 8 && (
              <input
                type="search"
                aria-label="Search models"
                placeholder="Search models"
                value={search}
                onInput={({ currentTarget }) => setSearch(currentTarget.value)}
              />
            )}
            <ul class="picks">
              {found.slice(0, MAX_SHOWN).map(({ slug, pricing }, index) => (
                <li key={slug}>
                  <input
                    type="checkbox"
                    id={`${id}-${index}`}
                    checked={chosen.includes(slug)}
                    onChange={() => toggle(slug)}
                  />
                  <label for={`${id}-${index}`}>
                    <span>{slug}</span>
                    <span class="dim">{toPrices(pricing)}</span>
                  </label>
                </li>
              ))}
            </ul>
            {found.length > MAX_SHOWN && <p class="hint">{found.length - MAX_SHOWN} more. Search to find them.</p>}
            {found.length === 0 && <p class="hint">No matching models.</p>}
          </div>
        </details>
      )}
    </>
  )
}

interface ExpiryFieldsProps {
  form: FormState<Values>
  /** Label of the option that keeps the current expiry; null if there is none. */
  kept?: string | null | undefined
  /** The ceiling as text. */
  most?: string | undefined
}

export const ExpiryFields = ({ form, kept = null, most }: ExpiryFieldsProps) => (
  <div class="fields">
    <SelectField
      of={form}
      name="expires_ms"
      label="Expires"
      hint={most}
      options={kept === null ? EXPIRIES : [['kept', kept], ...EXPIRIES]}
    />
    {form.values.value.expires_ms === 'on' && <TextField of={form} name="expires_on" label="Date" type="date" />}
  </div>
)
