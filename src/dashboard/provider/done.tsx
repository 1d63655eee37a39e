/** The added provider, and the next steps. */
import { useEffect, useRef } from 'preact/hooks'
import { count } from '../../domain/text.ts'
import { toHref } from '../address/address.ts'
import { useModels } from '../models/data.ts'
import { TestModel } from '../models/test.tsx'
import { ButtonLink } from '../ui/controls.tsx'
import { CodeTabs } from '../ui/tabs.tsx'
import { draft } from './draft.ts'

export function Done() {
  const at = useRef<HTMLHeadingElement>(null)
  const { data } = useModels()
  useEffect(() => at.current?.focus(), [])
  const { added } = draft.value
  if (added === null) return null
  const { id, models, unpriced, notes } = added
  const ready = models.filter((slug) => !unpriced.includes(slug))
  const [first] = ready
  const made = data?.find((one) => one.slug === first)?.output_modalities
  return (
    <div class="added">
      <h2 ref={at} tabIndex={-1}>
        Added {id} with {count(models.length, 'model')}
      </h2>
      {notes.map((note) => (
        <p key={note}>{note}</p>
      ))}
      {unpriced.length > 0 && (
        <p>
          Disabled until you set a price:{' '}
          {unpriced.slice(0, MAX_UNPRICED).map((slug, index) => (
            <>
              {index > 0 && ', '}
              <a href={toHref(`/models?model=${encodeURIComponent(slug)}&edit=price`)}>{slug}</a>
            </>
          ))}
          {unpriced.length > MAX_UNPRICED && (
            <>
              , and{' '}
              <a href={toHref(`/models?state=disabled&upstream=${encodeURIComponent(id)}`)}>
                {unpriced.length - MAX_UNPRICED} more
              </a>
            </>
          )}
        </p>
      )}
      <div class="form-foot">
        <ButtonLink kind="main" icon="plus" href={toHref('/keys/new')} data-new>
          Create a key
        </ButtonLink>
        {first !== undefined && (
          <ButtonLink icon="playground" href={toHref(`/playground?model=${encodeURIComponent(first)}`)}>
            Open in playground
          </ButtonLink>
        )}
        <a href={toHref(`/upstreams?upstream=${encodeURIComponent(id)}`)}>View upstream</a>
        {models.length === 0 && <a href={toHref('/models/new')}>Create a model</a>}
      </div>
      {ready.length > 0 && (
        <section class="part">
          <h3>Test a model</h3>
          <ul class="lines">
            {ready.slice(0, MAX_TESTED).map((slug) => {
              const model = data?.find((one) => one.slug === slug)
              return (
                <li key={slug}>
                  <span>
                    <code>{slug}</code>
                  </span>
                  {model && <TestModel of={model} />}
                </li>
              )
            })}
          </ul>
        </section>
      )}
      {first !== undefined && (
        <section class="part">
          <h3>Call it</h3>
          <CodeTabs
            label="Clients"
            of={({ toSnippets }) =>
              toSnippets({ baseUrl: `${location.origin}/v1`, secret: 'YOUR_KEY', model: first }, made)
            }
          />
        </section>
      )}
    </div>
  )
}

const MAX_UNPRICED = 5
const MAX_TESTED = 10
