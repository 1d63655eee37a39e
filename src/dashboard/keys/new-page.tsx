/** A new key: one screen, on which a name is enough. */
import { useState } from 'preact/hooks'
import { toHref } from '../address/address.ts'
import { FormPage } from '../shell/form-page.tsx'
import { NotForYou, Page } from '../shell/page.tsx'
import { ButtonLink } from '../ui/button.tsx'
import { useForm } from '../ui/form.tsx'
import { announce } from '../ui/notice.tsx'
import { makeKey, mayChangeKeys } from './data.ts'
import { KeyFields } from './fields.tsx'
import { NEW_KEY } from './form-values.ts'
import { Made } from './made.tsx'

export function NewKeyPage() {
  const [made, setMade] = useState<Awaited<ReturnType<typeof makeKey>> | null>(null)
  const form = useForm(NEW_KEY, async (values) => {
    setMade(await makeKey(values))
    announce('The key is made. Copy it now: it is shown once.')
    scrollTo(0, 0)
  })
  if (!mayChangeKeys()) return <NotForYou />
  if (made) {
    return (
      <Page
        title={`Key ${made.name}`}
        above={<a href={toHref('/keys')}>Keys</a>}
        actions={<ButtonLink href={toHref(`/keys?key=${made.id}`)}>I have kept it</ButtonLink>}
      >
        <Made id={made.id} secret={made.key} lastUsedMs={null} />
      </Page>
    )
  }
  return (
    <FormPage title="New key" list={['/keys', 'Keys']} form={form} submit="Make the key">
      <KeyFields form={form} kept={null} />
    </FormPage>
  )
}
