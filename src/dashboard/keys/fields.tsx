/** What one says of keys and of teams, when they are made and later; some of it of upstreams and tokens, too. */
import { useId, useState } from 'preact/hooks'
import type { KeyDocument } from '../../documents/key.ts'
import { LIMITS, type LimitName, mapLimits } from '../../domain/limits.ts'
import { toPrices } from '../figures/figures.ts'
import { useTeams } from '../teams/data.ts'
import { type FormState, SelectField, TextField } from '../ui/form.tsx'
import { useModels } from './data.ts'
import { EXPIRIES, type KeyValues, type NEW_EXPIRY, type SharedValues, type TeamValues } from './values.ts'
import { toCeilingTexts } from './words.ts'

interface KeyFieldsProps {
  form: FormState<KeyValues>
  /** How it says that it ends as it did before; null where it did not end. */
  kept: string | null
  /** What whoever fills it in may not lift. */
  ceilings?: KeyDocument['ceilings']
}

export function KeyFields({ form, kept, ceilings = {} }: KeyFieldsProps) {
  const most = toCeilingTexts(ceilings)
  const teams = useTeams().data ?? []
  const { allowed_ips: ips, scope } = form.values.value
  return (
    <>
      <TextField
        of={form}
        name="name"
        label="Name"
        hint="Whose it is, or what for. Requests and costs are told by it."
        autoFocus
      />
      <ModelsField form={form} most={most.models} />
      {teams.length > 0 && (
        <SelectField
          of={form}
          name="team"
          label="Team"
          hint="Its limits and its budget hold, too, for all of its keys together."
          options={[['', 'None'], ...teams.map(({ id, name }) => [id, name] as const)]}
        />
      )}
      <LimitFields form={form} most={most} />
      <ExpiryFields form={form} kept={kept} most={most.expires_ms} />
      <details open={ips !== '' || scope === 'local'}>
        <summary>Where it may be used</summary>
        <div class="form">
          <ScopeField form={form} most={most.scope} />
          <TextField
            of={form}
            name="allowed_ips"
            label="Addresses of clients"
            hint={most.allowed_ips ?? 'One a line, such as 203.0.113.7 or 10.0.0.0/8. None: from everywhere.'}
            isCode
            lines={2}
          />
        </div>
      </details>
    </>
  )
}

/** What one says of a team, likewise. */
export const TeamFields = ({ form }: { form: FormState<TeamValues> }) => (
  <>
    <TextField
      of={form}
      name="name"
      label="Name"
      hint="A group of people, or a project. Costs are told by it."
      autoFocus
    />
    <ModelsField form={form} />
    <LimitFields form={form} />
    <TextField
      of={form}
      name="max_keys"
      label="Keys that a member may have"
      hint="Members are people who make keys of their own. Nothing: as many as they like."
      inputMode="numeric"
      placeholder="no limit"
    />
    <details open={form.values.value.scope === 'local'}>
      <summary>Where its requests may go</summary>
      <ScopeField form={form} />
    </details>
  </>
)

/** What may not be gone beyond, in words, by the names of fields. */
type Most = Partial<Record<LimitName | 'budget', string>>

interface LimitFieldsProps {
  form: FormState<SharedValues>
  most?: Most
}

const PERIOD_OPTIONS = [
  ['month', 'a month'],
  ['week', 'a week'],
  ['day', 'a day'],
  ['total', 'in all'],
] as const

/** Of upstreams, too. */
export const RateFields = ({ form, most = {} }: { form: FormState<Record<LimitName, string>>; most?: Most }) => (
  <div class="fields">
    {Object.values(
      mapLimits((name) => (
        <TextField
          key={name}
          of={form}
          name={name}
          label={LIMITS[name].label}
          inputMode="numeric"
          placeholder="no limit"
          hint={most[name]}
        />
      )),
    )}
  </div>
)

const LimitFields = ({ form, most = {} }: LimitFieldsProps) => (
  <fieldset>
    <legend>Budget and limits</legend>
    <div class="fields">
      <TextField
        of={form}
        name="budget"
        label="Budget"
        before="$"
        inputMode="decimal"
        placeholder="none"
        hint={most.budget}
      />
      <SelectField of={form} name="budget_period" label="Each" options={PERIOD_OPTIONS} />
    </div>
    <RateFields form={form} most={most} />
  </fieldset>
)

const ScopeField = ({ form, most }: { form: FormState<SharedValues>; most?: string | undefined }) => (
  <SelectField
    of={form}
    name="scope"
    label="Upstreams"
    hint={most}
    options={[
      ['all', 'All of them'],
      ['local', 'Local ones alone: nothing leaves for a provider'],
    ]}
  />
)

/** More would be no choice but a scroll. */
const MOST_SHOWN = 50

/** Which models a key may use: patterns, and the models that there are with their prices, to be picked. */
function ModelsField({ form, most }: { form: FormState<SharedValues>; most?: string | undefined }) {
  const models = useModels().data ?? []
  const [search, setSearch] = useState('')
  const id = useId()
  const chosen = form.values.value.models.split(/[\s,]+/).filter((line) => line !== '')
  const found = models.filter(({ slug, name }) => `${slug} ${name}`.toLowerCase().includes(search.trim().toLowerCase()))
  const toggle = (slug: string) => {
    const next = chosen.includes(slug) ? chosen.filter((one) => one !== slug) : [...chosen, slug]
    form.set({ models: next.join('\n') })
  }
  return (
    <>
      <TextField
        of={form}
        name="models"
        label="Models"
        placeholder="every model"
        hint={most ?? 'One a line; * stands for anything, as in openai/*. None: every model, and those to come.'}
        isCode
        lines={Math.min(6, Math.max(2, chosen.length))}
      />
      {models.length > 0 && (
        <details>
          <summary>
            Pick from the {models.length === 1 ? 'model' : `${models.length} models`} that there{' '}
            {models.length === 1 ? 'is' : 'are'}
          </summary>
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
              {found.slice(0, MOST_SHOWN).map(({ slug, pricing }, index) => (
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
            {found.length > MOST_SHOWN && <p class="hint">{found.length - MOST_SHOWN} more: search for them.</p>}
            {found.length === 0 && <p class="hint">No model has that in its name.</p>}
          </div>
        </details>
      )}
    </>
  )
}

interface ExpiryFieldsProps {
  form: FormState<typeof NEW_EXPIRY>
  /** How it says that it ends as it did before; null where it did not end. */
  kept?: string | null
  /** What it may not go beyond. */
  most?: string | undefined
}

/** When a key or a token ends. */
export const ExpiryFields = ({ form, kept = null, most }: ExpiryFieldsProps) => (
  <div class="fields">
    <SelectField
      of={form}
      name="expires_ms"
      label="Ends"
      hint={most}
      options={kept === null ? EXPIRIES : [['kept', kept], ...EXPIRIES]}
    />
    {form.values.value.expires_ms === 'on' && <TextField of={form} name="expires_on" label="On" type="date" />}
  </div>
)
