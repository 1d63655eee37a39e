/** A new token, whose secret is shown this once, with a command that works as it is. */
import { useState } from 'preact/hooks'
import { toHref } from '../address/address.ts'
import { ExpiryFields } from '../keys/fields.tsx'
import { NEW_EXPIRY } from '../keys/values.ts'
import { FormPage } from '../shell/form-page.tsx'
import { Page } from '../shell/page.tsx'
import { ButtonLink } from '../ui/button.tsx'
import { Code } from '../ui/copy.tsx'
import { SelectField, TextField, useForm } from '../ui/form.tsx'
import { announce } from '../ui/notice.tsx'
import { Secret, ShownOnce } from '../ui/secret.tsx'
import { makeToken } from './data.ts'
import { toCurl } from './snippet.ts'

export function NewTokenPage() {
  const [made, setMade] = useState<Awaited<ReturnType<typeof makeToken>> | null>(null)
  const form = useForm({ ...NEW_EXPIRY, name: '', scope: 'read' }, async (values) => {
    setMade(await makeToken(values))
    announce('The token is made. Copy it now: it is shown once.')
    scrollTo(0, 0)
  })
  if (made) {
    return (
      <Page
        title={`Token ${made.name}`}
        above={<a href={toHref('/settings/tokens')}>Tokens</a>}
        actions={<ButtonLink href={toHref('/settings/tokens')}>I have kept it</ButtonLink>}
      >
        <div class="made">
          <Secret text={made.token} label="Copy the token" />
          <ShownOnce />
          <h2>Use it</h2>
          <Code label="Command that lists all keys" text={toCurl(location.origin, made.token)} />
        </div>
      </Page>
    )
  }
  return (
    <FormPage title="New token" list={['/settings/tokens', 'Tokens']} form={form} submit="Make the token">
      <TextField
        of={form}
        name="name"
        label="Name"
        hint="The script that it is for. What it changes is told by it."
        autoFocus
      />
      <SelectField
        of={form}
        name="scope"
        label="May"
        options={[
          ['read', 'read: what a viewer may'],
          ['write', 'write: what an editor may'],
        ]}
      />
      <ExpiryFields form={form} />
    </FormPage>
  )
}
