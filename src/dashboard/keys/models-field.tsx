/** Which models a key may use: patterns, and the models that there are with their prices, to be picked. */
import { useId, useState } from 'preact/hooks'
import { toPrices } from '../figures/prices.ts'
import { type FormState, TextField } from '../ui/form.tsx'
import { useModels } from './data.ts'
import type { SharedValues } from './shared-values.ts'

/** More would be no choice but a scroll. */
const MOST_SHOWN = 50

export function ModelsField({ form, most }: { form: FormState<SharedValues>; most?: string | undefined }) {
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
