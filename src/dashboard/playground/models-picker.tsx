/** Which model is asked, and a second one beside it. The address has both. */
import { useId } from 'preact/hooks'
import { setQuery } from '../address/address.ts'
import { toPrices } from '../figures/prices.ts'
import { Button, IconButton } from '../ui/button.tsx'
import { Count, State } from '../ui/figure.tsx'
import { chooseSecond, toOfferText } from './choice.ts'
import { findModel, type OfferedModel } from './data.ts'
import { focusSoon } from './focus.ts'
import { beginSecond, dropSide, isAnswering } from './state.ts'

interface PickerProps {
  models: readonly OfferedModel[]
  chosen: readonly string[]
}

export function ModelsPicker({ models, chosen }: PickerProps) {
  const [first = '', second] = chosen
  const compare = () => {
    setQuery({ model: first, beside: chooseSecond(models, first) })
    beginSecond()
    focusSoon('.play-models [name="beside"]')
  }
  const drop = (side: 0 | 1) => {
    dropSide(side)
    setQuery({ model: chosen[side === 0 ? 1 : 0] ?? null, beside: null })
    focusSoon('.play-models [name="model"]')
  }
  return (
    <div class="play-models" data-two={second !== undefined}>
      <ModelField name="model" label="Model" models={models} slug={first} drop={second && (() => drop(0))} />
      {second !== undefined ? (
        <ModelField name="beside" label="Beside it" models={models} slug={second} drop={() => drop(1)} />
      ) : (
        <div class="play-compare">
          <Button icon="plus" onClick={compare} disabled={isAnswering.value}>
            Compare with another
          </Button>
        </div>
      )}
    </div>
  )
}

interface FieldProps {
  /** In the address. */
  name: 'model' | 'beside'
  label: string
  models: readonly OfferedModel[]
  slug: string
  drop: (() => void) | undefined | ''
}

function ModelField({ name, label, models, slug, drop }: FieldProps) {
  const id = useId()
  const model = findModel(models, slug)
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <div class="play-model">
        <select
          {...{ id, name }}
          aria-describedby={`${id}-facts`}
          disabled={isAnswering.value}
          onChange={({ currentTarget: { value } }) => setQuery({ [name]: value })}
        >
          {model === null && (
            <option value={slug} selected>
              {slug}
            </option>
          )}
          {models.map((one) => (
            <option key={one.slug} value={one.slug} selected={one.slug === slug}>
              {toOfferText(one)}
            </option>
          ))}
        </select>
        {drop && <IconButton icon="close" label={`Without ${slug}`} onClick={drop} disabled={isAnswering.value} />}
      </div>
      <p class="hint play-facts" id={`${id}-facts`}>
        {model === null ? (
          'There is no such model for you now: it may be gone, or not yours to use.'
        ) : (
          <>
            <State kind={model.is_ready === false ? 'bad' : 'good'}>
              {model.is_ready === false ? 'not ready' : 'ready'}
            </State>
            <span>{toPrices(model.pricing)}</span>
            <span>
              <Count count={model.context_length} /> tokens of context
            </span>
          </>
        )}
      </p>
    </div>
  )
}
